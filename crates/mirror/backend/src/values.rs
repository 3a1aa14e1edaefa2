//! Values in a file or an object. Each checks itself while it is parsed, so that an error of a file has its line, and has a
//! schema by which the API server refuses most of what is wrong.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use gimbal_duration::HumanDuration;
use gimbal_model::{InvalidNamespacePattern, NamespacePattern, is_certificate_name};
use gimbal_reconcile::is_namespace;
use ipnet::IpNet;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// Deserializes a text with a parser.
fn parsed<'de, D: Deserializer<'de>, T>(from: D, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    parse(&text).map_err(D::Error::custom)
}

/// Implements the schema of a type.
macro_rules! schema {
    ($type:ty, $schema:tt) => {
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

/// A URI or DNS name, as in a certificate's subject alternative names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateName(pub String);

impl<'de> Deserialize<'de> for CertificateName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        if is_certificate_name(&text) {
            return Ok(Self(text));
        }
        let message = format!("{text:?} is no identity: use one URI or DNS name of its certificate, without wildcards");
        Err(D::Error::custom(message))
    }
}

schema!(CertificateName, {
    "type": "string",
    "maxLength": 1024,
    "x-kubernetes-validations": [{
        "rule": "self.matches('^([!-)+-~]+://[!-)+-~]+|[A-Za-z0-9.-]+)$')",
        "message": "use one URI or DNS name of its certificate, without wildcards",
    }],
});

/// A pattern for namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceRule(pub NamespacePattern);

impl<'de> Deserialize<'de> for NamespaceRule {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        parsed(from, |text| text.parse().map(Self).map_err(|error: InvalidNamespacePattern| error.to_string()))
    }
}

schema!(NamespaceRule, { "type": "string", "maxLength": 127, "pattern": "^[a-z0-9*]([-a-z0-9*]*[a-z0-9*])?$" });

/// The name of a Secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretName(pub String);

impl<'de> Deserialize<'de> for SecretName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        parsed(from, |text| {
            let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'.');
            let ends = text.starts_with(['-', '.']) || text.ends_with(['-', '.']);
            match !text.is_empty() && text.len() <= 253 && !ends && text.bytes().all(plain) {
                true => Ok(Self(text.to_owned())),
                false => Err(format!("{text:?} is no name of a Secret: use lower-case letters, digits, '-' and '.'")),
            }
        })
    }
}

schema!(SecretName, { "type": "string", "maxLength": 253, "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$" });

/// A project by name or ID, in which `*` matches any letters. It is one of a list that commas divide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectRule(pub String);

impl<'de> Deserialize<'de> for ProjectRule {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        parsed(from, |text| match !text.is_empty() && text.len() <= 255 && !text.contains([',', '\n']) {
            true => Ok(Self(text.to_owned())),
            false => Err(format!("{text:?} is no project: it is empty, too long, or has a comma")),
        })
    }
}

schema!(ProjectRule, { "type": "string", "maxLength": 255, "pattern": "^[^,\\n]+$" });

/// The target namespace of a mapping.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MappedNamespace(pub String);

impl<'de> Deserialize<'de> for MappedNamespace {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        parsed(from, |text| match is_namespace(text) {
            true => Ok(Self(text.to_owned())),
            false => Err(format!("{text:?} is no namespace: use lower-case letters, digits and '-', at most 63")),
        })
    }
}

schema!(MappedNamespace, { "type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" });

/// A range of addresses.
#[derive(Debug, Clone, Copy)]
pub struct AddressRange(pub IpNet);

impl<'de> Deserialize<'de> for AddressRange {
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

schema!(AddressRange, {
    "type": "string",
    "maxLength": 64,
    "x-kubernetes-validations": [{ "rule": "isCIDR(self)", "message": "write a range of addresses as in 10.0.0.0/8" }],
});

/// What an application protocol is replaced by; an empty text: by nothing, as null in a file.
#[derive(Debug, Clone)]
pub struct RenamedProtocol(pub Option<String>);

impl<'de> Deserialize<'de> for RenamedProtocol {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Some(text) = Option::<String>::deserialize(from)? else { return Ok(Self(None)) };
        match gimbal_plan::AppProtocols::is_valid(&text) {
            _ if text.is_empty() => Ok(Self(None)),
            true => Ok(Self(Some(text))),
            false => Err(D::Error::custom(format!(
                "{text:?} is no appProtocol: write it as in kubernetes.io/h2c, or null for none"
            ))),
        }
    }
}

// The API server drops null from a map, so that an object says none by an empty text.
schema!(RenamedProtocol, { "type": "string", "maxLength": 317 });

/// The text of a number. A file has numbers as text, in quotes or without, and JSON has them as numbers.
struct NumberText;

impl Visitor<'_> for NumberText {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }
}

/// A number that is not negative.
struct Number(u64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = from.deserialize_any(NumberText)?;
        text.parse().map(Self).map_err(|_| D::Error::custom(format!("{text:?} is no number: use digits only")))
    }
}

/// Parses a number, if there is one.
pub(crate) fn optional_number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(Option::<Number>::deserialize(from)?.map(|number| number.0))
}

/// Parses a number of at least one, if there is one: a rate of zero would let nothing through, not even deletions.
pub(crate) fn optional_count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
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
pub(crate) fn optional_guard_time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<HumanDuration>, D::Error> {
    match Option::<HumanDuration>::deserialize(from)? {
        Some(time) if time.0 < SHORTEST_GUARD_TIME => Err(D::Error::custom(
            "shorter than 1s, which would hold nothing: make it longer, or turn the guard off with maxDropPercent: 100",
        )),
        time => Ok(time),
    }
}

/// The schema of a key of labels or annotations, or of a pattern for some.
pub(crate) struct KeyText;

schema!(KeyText, { "type": "string", "maxLength": 318 });

/// The schema of a label selector.
pub(crate) struct LabelSelectorText;

schema!(LabelSelectorText, { "type": "string", "maxLength": 1024 });

/// The schema of a time of at least a second. Without days, which a file may have: CEL does not know them.
pub(crate) struct LongTime;

schema!(LongTime, {
    "type": "string",
    "maxLength": 32,
    "pattern": "^([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s)?([0-9]{1,9}ms)?$",
    "x-kubernetes-validations": [{
        "rule": "duration(self) >= duration('1s')",
        "message": "use at least 1s, written like 30s, 10m, 1h30m or 1500ms",
    }],
});

/// The schema of a time that may be none. Without days, as [`LongTime`].
pub(crate) struct AnyTime;

schema!(AnyTime, {
    "type": "string",
    "maxLength": 32,
    "pattern": "^([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s)?([0-9]{1,9}ms)?$",
    "x-kubernetes-validations": [{
        "rule": "duration(self) >= duration('0s')",
        "message": "write a time like 0s, 30s, 10m or 1h30m",
    }],
});

/// A percentage.
#[derive(Debug, Clone, Copy)]
pub struct Percent(pub u8);

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = from.deserialize_any(NumberText)?;
        match text.parse() {
            Ok(share) if share <= 100 => Ok(Self(share)),
            _ => Err(D::Error::custom(format!("{text:?} is no percentage: use 0 to 100"))),
        }
    }
}

schema!(Percent, { "type": "integer", "minimum": 0, "maximum": 100 });
