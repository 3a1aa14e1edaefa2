//! The values in the file. Each checks itself while it is parsed, so that an error has its line.

use std::net::IpAddr;
use std::time::Duration;

use gimbal_model::{InvalidNamespacePattern, NamespacePattern};
use gimbal_reconcile::is_namespace;
use gimbal_runtime::HumanDuration;
use gimbal_transport::{DeniedCertificate, InvalidDenial};
use ipnet::IpNet;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Deserializes a text with a parser.
fn parsed<'de, D: Deserializer<'de>, T>(from: D, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    parse(&text).map_err(D::Error::custom)
}

/// A pattern for namespaces.
#[derive(Debug, Clone)]
pub(super) struct NamespaceRule(pub(super) NamespacePattern);

impl<'de> Deserialize<'de> for NamespaceRule {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        parsed(from, |text| text.parse().map(Self).map_err(|error: InvalidNamespacePattern| error.to_string()))
    }
}

/// The target namespace of a mapping.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MappedNamespace(pub(super) String);

impl<'de> Deserialize<'de> for MappedNamespace {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        parsed(from, |text| match is_namespace(text) {
            true => Ok(Self(text.to_owned())),
            false => Err(format!("{text:?} is no namespace: use lower-case letters, digits and '-', at most 63")),
        })
    }
}

/// A range of addresses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range(pub(super) IpNet);

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        parsed(from, |text| match text.parse::<IpNet>() {
            Ok(range) => Ok(Self(range)),
            Err(_) if text.parse::<IpAddr>().is_ok() => {
                Err(format!("{text:?} is no range of addresses: add the length of its prefix, as in 10.0.0.0/8"))
            }
            Err(_) => Err(format!("{text:?} is no range of addresses: write it as in 10.0.0.0/8")),
        })
    }
}

/// A certificate that is refused.
#[derive(Debug, Clone)]
pub(super) struct Denial(pub(super) DeniedCertificate);

impl<'de> Deserialize<'de> for Denial {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        parsed(from, |text| text.parse().map(Self).map_err(|error: InvalidDenial| error.to_string()))
    }
}

/// An application protocol that replaces another.
#[derive(Debug, Clone)]
pub(super) struct AppProtocol(pub(super) String);

impl<'de> Deserialize<'de> for AppProtocol {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        parsed(from, |text| match gimbal_plan::AppProtocols::is_valid(text) {
            true => Ok(Self(text.to_owned())),
            false => Err(format!("{text:?} is no appProtocol: write it as in kubernetes.io/h2c, or null for none")),
        })
    }
}

/// A number that is not negative.
struct Number(u64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        parsed(from, |text| match text.parse() {
            Ok(number) => Ok(Self(number)),
            Err(_) => Err(format!("{text:?} is no number: use digits only")),
        })
    }
}

/// Parses a number, if there is one.
pub(super) fn optional_number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(Option::<Number>::deserialize(from)?.map(|number| number.0))
}

/// Parses a number of at least one, if there is one: a rate of zero would let nothing through, not even deletions.
pub(super) fn optional_count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    match optional_number(from)? {
        Some(0) => {
            Err(D::Error::custom("0 would let nothing through: use at least 1, or quarantine the backend (mode)"))
        }
        number => Ok(number),
    }
}

/// Shortest time that is accepted for the guard. A removal held for less would be released by the next snapshot or
/// tick.
const SHORTEST_GUARD_TIME: Duration = Duration::from_secs(1);

/// Parses a time of the guard, if there is one.
pub(super) fn optional_guard_time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<HumanDuration>, D::Error> {
    match Option::<HumanDuration>::deserialize(from)? {
        Some(time) if time.0 < SHORTEST_GUARD_TIME => Err(D::Error::custom(
            "shorter than 1s, which would hold nothing: make it longer, or turn the guard off with maxDropPercent: 100",
        )),
        time => Ok(time),
    }
}

/// A percentage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Percent(pub(super) u8);

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        parsed(from, |text| match text.parse() {
            Ok(share) if share <= 100 => Ok(Self(share)),
            _ => Err(format!("{text:?} is no percentage: use 0 to 100")),
        })
    }
}
