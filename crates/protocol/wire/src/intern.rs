//! Shares equal values of a frame in memory: ten thousand endpoints may have three zones and one port set between them.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use gimbal_model::{Detail, PortSet};

/// The values of a frame that were parsed so far.
#[derive(Debug, Default)]
pub struct Interner {
    texts: HashSet<Arc<str>>,
    ports: HashSet<PortSet>,
    details: HashSet<Arc<Detail>>,
}

impl Interner {
    /// Returns the text, shared with equal ones.
    pub fn text(&mut self, text: String) -> Arc<str> {
        match self.texts.get(text.as_str()) {
            Some(known) => known.clone(),
            None => shared(&mut self.texts, text.into()),
        }
    }

    pub(crate) fn ports(&mut self, ports: PortSet) -> PortSet {
        shared(&mut self.ports, ports)
    }

    pub(crate) fn detail(&mut self, detail: Detail) -> Arc<Detail> {
        match self.details.get(&detail) {
            Some(known) => known.clone(),
            None => shared(&mut self.details, Arc::new(detail)),
        }
    }
}

fn shared<T: Clone + Eq + Hash>(known: &mut HashSet<T>, value: T) -> T {
    if let Some(known) = known.get(&value) {
        return known.clone();
    }
    known.insert(value.clone());
    value
}
