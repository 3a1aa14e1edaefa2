//! Reads texts straight into what they are kept in. serde's own way to an `Arc<str>` leads over a `String` of its own, which
//! is half of all the allocations for an object with many addresses.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// One text.
pub(crate) fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<str>, D::Error> {
    from.deserialize_str(TextVisitor)
}

/// A list of texts.
pub(crate) fn list<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Arc<str>>, D::Error> {
    from.deserialize_seq(ListVisitor)
}

/// Labels and the like.
pub(crate) fn map<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<Arc<str>, Arc<str>>, D::Error> {
    from.deserialize_map(MapVisitor)
}

struct TextVisitor;

impl Visitor<'_> for TextVisitor {
    type Value = Arc<str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Arc<str>, E> {
        Ok(text.into())
    }
}

struct Text(Arc<str>);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text(from).map(Self)
    }
}

struct ListVisitor;

impl<'de> Visitor<'de> for ListVisitor {
    type Value = Vec<Arc<str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        // An endpoint has one address.
        let mut list = Vec::with_capacity(1);
        while let Some(Text(text)) = from.next_element()? {
            list.push(text);
        }
        Ok(list)
    }
}

struct MapVisitor;

impl<'de> Visitor<'de> for MapVisitor {
    type Value = BTreeMap<Arc<str>, Arc<str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        let mut map = BTreeMap::new();
        while let Some((Text(key), Text(value))) = from.next_entry()? {
            map.insert(key, value);
        }
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use crate::{EndpointSlice, Service};

    #[test]
    fn texts_are_what_they_are_in_json() {
        let json = r#"{"metadata":{"name":"a\u0062c","labels":{"k\"":"v\n","a":""},"annotations":{}},
            "addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1","ü"]},{"addresses":[]}]}"#;
        let slice: EndpointSlice = serde_json::from_str(json).unwrap();
        let labels: Vec<_> = slice.metadata.labels.iter().map(|(key, value)| (&**key, &**value)).collect();
        assert_eq!((&*slice.metadata.name, labels), ("abc", vec![("a", ""), ("k\"", "v\n")]));
        let addresses: Vec<Vec<&str>> =
            slice.endpoints.iter().map(|endpoint| endpoint.addresses.iter().map(|text| &**text).collect()).collect();
        assert_eq!((&*slice.address_type, addresses), ("IPv4", vec![vec!["10.0.0.1", "ü"], vec![]]));
    }

    #[test]
    fn what_is_no_text_is_refused() {
        for (json, problem) in [
            (r#"{"metadata":{"name":1}}"#, "invalid type: integer `1`, expected a string"),
            (r#"{"metadata":{"labels":{"a":null}}}"#, "invalid type: null, expected a string"),
            (r#"{"metadata":{"labels":["a"]}}"#, "invalid type: sequence, expected a map"),
        ] {
            let error = serde_json::from_str::<Service>(json).unwrap_err().to_string();
            assert!(error.starts_with(problem), "{error}");
        }
    }
}
