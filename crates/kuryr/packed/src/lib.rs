//! Values that rest, in few bytes. Nearly all load balancers rest nearly always, and what is kept of each is looked at only when
//! something about it changes.
//!
//! A [`PackedValue`] is lossless by construction: when it is made, its bytes are read again, and what does not come back equal
//! stays as it is.

mod bytes;
mod form;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

pub use form::{JsonForm, PackedForm};

/// The longest form that is packed. What is longer has thousands of endpoints: those are few, change often, and would take
/// longer to unpack than to decide.
const LONGEST: usize = 64 << 10;

/// A value, packed in a form. Clones share the bytes.
pub struct PackedValue<T, F = JsonForm> {
    kept: KeptAs<T>,
    form: PhantomData<fn() -> F>,
}

enum KeptAs<T> {
    Bytes(Arc<[u8]>),
    /// It is too long, or would not come back as it is.
    Plain(Arc<T>),
}

impl<T: PartialEq, F: PackedForm<T>> PackedValue<T, F> {
    /// Packs a value.
    #[must_use]
    pub fn new(value: Arc<T>) -> Self {
        let written = F::write(&value).filter(|written| written.len() <= LONGEST);
        let packed = written.and_then(|written| bytes::pack(&written));
        let kept = match packed.filter(|packed| unpack::<T, F>(packed).as_ref() == Some(&*value)) {
            Some(packed) => KeptAs::Bytes(packed.into()),
            None => KeptAs::Plain(value),
        };
        Self { kept, form: PhantomData }
    }

    /// Whether it takes few bytes. One that does not is kept as it is.
    #[must_use]
    pub fn is_packed(&self) -> bool {
        matches!(self.kept, KeptAs::Bytes(_))
    }
}

impl<T, F: PackedForm<T>> PackedValue<T, F> {
    /// Returns the value.
    ///
    /// # Panics
    /// If the bytes are not those that were read when the value was packed. Memory that changes by itself must not be acted upon.
    #[must_use]
    pub fn get(&self) -> Arc<T> {
        match &self.kept {
            KeptAs::Plain(value) => value.clone(),
            KeptAs::Bytes(packed) => match unpack::<T, F>(packed) {
                Some(value) => Arc::new(value),
                None => panic!("{} bytes in memory are not what was packed", packed.len()),
            },
        }
    }
}

fn unpack<T, F: PackedForm<T>>(packed: &[u8]) -> Option<T> {
    F::read(&bytes::unpack(packed)?)
}

impl<T, F> Clone for PackedValue<T, F> {
    fn clone(&self) -> Self {
        let kept = match &self.kept {
            KeptAs::Bytes(packed) => KeptAs::Bytes(packed.clone()),
            KeptAs::Plain(value) => KeptAs::Plain(value.clone()),
        };
        Self { kept, form: PhantomData }
    }
}

/// Compares the bytes where both have some: equal values have equal ones, for a form and its compression depend on the value alone.
impl<T: PartialEq, F: PackedForm<T>> PartialEq for PackedValue<T, F> {
    fn eq(&self, other: &Self) -> bool {
        match (&self.kept, &other.kept) {
            (KeptAs::Bytes(one), KeptAs::Bytes(other)) => one == other,
            _ => self.get() == other.get(),
        }
    }
}

impl<T: Eq, F: PackedForm<T>> Eq for PackedValue<T, F> {}

/// Shows the value.
impl<T: fmt::Debug, F: PackedForm<T>> fmt::Debug for PackedValue<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.get(), f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn packed(value: Value) -> PackedValue<Value> {
        PackedValue::new(Arc::new(value))
    }

    #[test]
    fn what_repeats_takes_few_bytes() {
        let member = |n| json!({"id": format!("00000000-0000-4000-8000-{n:012}"), "pool_id": "pool", "port": 8080});
        let value = json!({"members": (0..20).map(member).collect::<Vec<_>>()});
        let KeptAs::Bytes(bytes) = packed(value.clone()).kept else { panic!("it is packed") };
        assert!(bytes.len() * 5 < value.to_string().len(), "{}", bytes.len());
    }

    #[test]
    fn what_is_long_stays_as_it_is() {
        let long = packed(json!("x".repeat(LONGEST)));
        assert!(!long.is_packed() && packed(json!("x".repeat(LONGEST - 2))).is_packed());
        assert_eq!(*long.get(), json!("x".repeat(LONGEST)));
    }

    /// One that cannot be read, and one that is read as something else.
    #[test]
    fn what_would_not_come_back_stays_as_it_is() {
        struct Lossy;
        impl PackedForm<u8> for Lossy {
            fn write(number: &u8) -> Option<Vec<u8>> {
                (*number != 3).then(|| vec![*number])
            }

            fn read(bytes: &[u8]) -> Option<u8> {
                bytes.first().copied().filter(|number| *number != 1).map(|number| number.max(1))
            }
        }
        let kept = [0, 1, 2, 3].map(|number| PackedValue::<u8, Lossy>::new(Arc::new(number)));
        assert_eq!(kept.each_ref().map(PackedValue::is_packed), [false, false, true, false]);
        assert_eq!(kept.each_ref().map(|one| *one.get()), [0, 1, 2, 3]);
    }

    #[test]
    #[should_panic(expected = "bytes in memory are not what was packed")]
    fn bytes_that_changed_are_not_taken_for_a_value() {
        let kept = KeptAs::Bytes(b"what is this".as_slice().into());
        drop(PackedValue::<Value> { kept, form: PhantomData }.get());
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(any::<String>(), inner, 0..4).prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_value_comes_back(one in any_value(), other in any_value()) {
            let (first, second) = (packed(one.clone()), packed(other.clone()));
            prop_assert_eq!(&*first.get(), &one);
            prop_assert_eq!(&*second.get(), &other);
            prop_assert_eq!(first == second, one == other);
            prop_assert!(packed(one.clone()) == first && first.clone() == first);
            prop_assert_eq!(format!("{first:?}"), format!("{one:?}"));
        }
    }
}
