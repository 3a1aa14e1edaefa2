//! A part of a state, shared with the states that follow until it changes.

use std::fmt::Debug;
use std::ops::Deref;
use std::rc::Rc;

use crate::print::fingerprint;

/// A shared value that is copied when it is changed.
#[derive(Debug, Clone)]
pub(crate) struct Part<T> {
    value: Rc<T>,
    print: Option<u64>,
}

impl<T: Clone + Debug> Part<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Rc::new(value), print: None }
    }

    /// Returns the value for a change; copies it first if it is shared.
    pub(crate) fn edit(&mut self) -> &mut T {
        self.print = None;
        Rc::make_mut(&mut self.value)
    }

    pub(crate) fn fingerprint(&mut self) -> u64 {
        *self.print.get_or_insert_with(|| fingerprint(&*self.value))
    }
}

impl<T> Deref for Part<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
