//! `v1`: Secrets with a certificate and its key.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::{Kind, Meta, Object};

/// `Secret` of type `kubernetes.io/tls`. Its content shows neither in logs nor in errors, is written nowhere, and is wiped from memory
/// when it is dropped. Labels and annotations are not read: one of these is a copy of the content that `kubectl apply` makes.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TlsSecret {
    /// Metadata.
    #[serde(deserialize_with = "bare")]
    pub metadata: Meta,
    /// What it holds.
    #[serde(skip_serializing)]
    data: Data,
}

#[derive(Clone, PartialEq, Eq, Default)]
struct Data {
    chain: WipedText,
    key: WipedText,
}

/// A text that is wiped from memory when it is dropped, and does not show itself. What is no text in JSON is empty: an error would
/// show it.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct WipedText(Zeroizing<String>);

impl TlsSecret {
    /// Returns `tls.crt` as it is sent, in Base64; empty if there is none.
    #[must_use]
    pub fn chain(&self) -> &WipedText {
        &self.data.chain
    }

    /// Returns `tls.key` in the same way.
    #[must_use]
    pub fn key(&self) -> &WipedText {
        &self.data.key
    }
}

impl WipedText {
    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Object for TlsSecret {
    const KIND: Kind = Kind { kind: "Secret", api_version: "v1", plural: "secrets" };

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl fmt::Debug for TlsSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSecret").field("metadata", &self.metadata).finish_non_exhaustive()
    }
}

impl fmt::Debug for WipedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WipedText(..)")
    }
}

impl<'de> Deserialize<'de> for WipedText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyValue(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyValue(PhantomData))
    }
}

/// What can be read of any value: errors of serde show the value that they are about.
trait OfAnyValue<'de>: Default {
    fn of_text(_: &str) -> Self {
        Self::default()
    }

    fn of_map<A: MapAccess<'de>>(mut from: A) -> Result<Self, A::Error> {
        while from.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
}

impl OfAnyValue<'_> for WipedText {
    fn of_text(text: &str) -> Self {
        Self(Zeroizing::new(text.to_owned()))
    }
}

impl<'de> OfAnyValue<'de> for Data {
    fn of_map<A: MapAccess<'de>>(mut from: A) -> Result<Self, A::Error> {
        let mut data = Self::default();
        while let Some(key) = from.next_key::<Cow<'de, str>>()? {
            match &*key {
                "tls.crt" => data.chain = from.next_value()?,
                "tls.key" => data.key = from.next_value()?,
                _ => drop(from.next_value::<IgnoredAny>()?),
            }
        }
        Ok(data)
    }
}

struct AnyValue<T>(PhantomData<T>);

impl<'de, T: OfAnyValue<'de>> Visitor<'de> for AnyValue<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        Ok(T::of_text(text))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_unit<E: Error>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<T, A::Error> {
        while from.next_element::<IgnoredAny>()?.is_some() {}
        Ok(T::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, from: A) -> Result<T, A::Error> {
        T::of_map(from)
    }
}

/// Metadata without labels and annotations.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BareMeta {
    #[serde(deserialize_with = "crate::text::text")]
    name: Arc<str>,
    #[serde(deserialize_with = "crate::text::text")]
    namespace: Arc<str>,
    #[serde(deserialize_with = "crate::text::text")]
    uid: Arc<str>,
    #[serde(deserialize_with = "crate::text::text")]
    resource_version: Arc<str>,
    deletion_timestamp: Option<Arc<str>>,
}

fn bare<'de, D: Deserializer<'de>>(from: D) -> Result<Meta, D::Error> {
    let BareMeta { name, namespace, uid, resource_version, deletion_timestamp } = crate::text::null_is_default(from)?;
    Ok(Meta { name, namespace, uid, resource_version, deletion_timestamp, ..Meta::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = r#"{"kind":"Secret","type":"kubernetes.io/tls","metadata":{"name":"web","namespace":"team","uid":"u",
        "annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"data\":{\"tls.key\":\"TUFSS0VS\"}}"},
        "managedFields":[{"manager":"kubectl"}]},"data":{"tls.crt":"Y2hhaW4=","tls.key":"TUFSS0VS","other":"TUFSS0VS"}}"#;

    #[test]
    fn a_secret_shows_nothing_of_its_content() {
        let secret: TlsSecret = serde_json::from_str(SECRET).unwrap();
        assert_eq!((secret.chain().as_str(), secret.key().as_str()), ("Y2hhaW4=", "TUFSS0VS"));
        assert_eq!((&*secret.metadata.name, &*secret.metadata.uid), ("web", "u"));
        let shown = format!("{secret:?} {:#?} {:?}", secret.clone(), secret.key());
        assert!(!shown.contains("TUFSS0VS") && shown.contains("web"), "{shown}");
        assert!(!serde_json::to_string(&secret).unwrap().contains("TUFSS0VS"));
    }

    #[test]
    fn what_is_no_text_is_empty_and_no_error_shows_it() {
        for data in [
            r#"{"tls.key":[["TUFSS0VS"]]}"#,
            r#"{"tls.key":{"a":{"b":"TUFSS0VS"}}}"#,
            r#"{"tls.key":77777}"#,
            r#"{"tls.key":-7.5}"#,
            r#"{"tls.key":null}"#,
            r#"{"tls.key":true}"#,
            "{}",
        ] {
            let secret: TlsSecret = serde_json::from_str(&format!(r#"{{"data":{data}}}"#)).unwrap();
            assert_eq!(secret, TlsSecret::default(), "{data}");
        }
        for data in [r#""TUFSS0VS""#, r#"["TUFSS0VS"]"#, "7", "null"] {
            let secret: TlsSecret = serde_json::from_str(&format!(r#"{{"data":{data}}}"#)).unwrap();
            assert_eq!(secret, TlsSecret::default(), "{data}");
        }
    }
}
