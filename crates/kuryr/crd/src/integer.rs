//! Reads integers of any size. The API server takes every integral number where a schema has no bounds, and one object
//! with such a number must not fail a list.

use std::fmt;

use serde::de::{Deserializer, Error, Visitor};

/// Clamps to the range of `i64`.
pub(crate) fn integer<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    from.deserialize_any(Integer)
}

pub(crate) fn optional<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    integer(from).map(Some)
}

struct Integer;

impl Visitor<'_> for Integer {
    type Value = i64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<i64, E> {
        Ok(number)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<i64, E> {
        Ok(i64::try_from(number).unwrap_or(i64::MAX))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<i64, E> {
        // A cast of a float is clamped.
        if number.fract() == 0.0 { Ok(number as i64) } else { Err(E::custom("not an integer")) }
    }
}
