//! The values in the file that are not a backend's. Each checks itself while it is parsed, so that an error has its line.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// A value that is written as text, for example a certificate that is refused.
#[derive(Debug, Clone)]
pub(super) struct ParsedText<T>(pub(super) T);

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for ParsedText<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map(Self).map_err(D::Error::custom)
    }
}
