//! Reads texts straight into what they are kept in. serde's own way to an `Arc<str>` leads over a `String` of its own, which
//! is half of all the allocations for an object with many addresses.
//!
//! `null` is read as empty, as Go reads it: servers and older writers send it for fields that are not set.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// One text.
pub(crate) fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<str>, D::Error> {
    from.deserialize_option(OrEmpty(TextVisitor))
}

/// A list of texts.
pub(crate) fn list<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Arc<str>>, D::Error> {
    from.deserialize_option(OrEmpty(ListVisitor))
}

/// Labels and the like.
pub(crate) fn map<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<Arc<str>, Arc<str>>, D::Error> {
    from.deserialize_option(OrEmpty(MapVisitor))
}

/// Any value.
pub(crate) fn null_is_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

/// Reads a value with the visitor, and `null` as the empty value.
struct OrEmpty<V>(V);

/// Reads a value of one type.
trait Read<'de>: Visitor<'de> {
    fn read<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error>;
}

impl<'de, V: Read<'de>> Visitor<'de> for OrEmpty<V>
where
    V::Value: Default,
{
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        Ok(V::Value::default())
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        Ok(V::Value::default())
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<V::Value, D::Error> {
        self.0.read(from)
    }
}

impl<'de> Read<'de> for TextVisitor {
    fn read<D: Deserializer<'de>>(self, from: D) -> Result<Arc<str>, D::Error> {
        from.deserialize_str(self)
    }
}

impl<'de> Read<'de> for ListVisitor {
    fn read<D: Deserializer<'de>>(self, from: D) -> Result<Vec<Arc<str>>, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Read<'de> for MapVisitor {
    fn read<D: Deserializer<'de>>(self, from: D) -> Result<BTreeMap<Arc<str>, Arc<str>>, D::Error> {
        from.deserialize_map(self)
    }
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
        from.deserialize_str(TextVisitor).map(Self)
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
    use crate::{ConfigMap, EndpointSlice, Endpoints, LifecycleMeta, List, Meta, Service, Status};

    /// Returns the value of this JSON, in which every field of the first level is given as null.
    fn of_nulls<T: serde::de::DeserializeOwned>(fields: &[&str]) -> T {
        let nulls = fields.iter().map(|field| ((*field).to_owned(), serde_json::Value::Null));
        serde_json::from_value(nulls.collect()).unwrap()
    }

    #[test]
    fn null_is_what_is_not_set() {
        let texts = ["name", "namespace", "uid", "resourceVersion", "labels", "annotations", "deletionTimestamp"];
        assert_eq!(of_nulls::<Meta>(&texts), Meta::default());
        let more = ["finalizers", "generation", "ownerReferences", "creationTimestamp"];
        assert_eq!(of_nulls::<LifecycleMeta>(&[&texts[..], &more].concat()), LifecycleMeta::default());
        let owner = r#"{"ownerReferences":[{"apiVersion":null,"kind":null,"name":"a","uid":null,"controller":null}]}"#;
        assert_eq!(&*serde_json::from_str::<LifecycleMeta>(owner).unwrap().owner_references[0].name, "a");
        assert_eq!(of_nulls::<Service>(&["metadata", "spec"]), Service::default());
        let spec = r#"{"spec":{"selector":null,"ports":null,"externalIPs":null}}"#;
        assert_eq!(serde_json::from_str::<Service>(spec).unwrap(), Service::default());
        assert_eq!(of_nulls::<ConfigMap>(&["metadata", "data"]), ConfigMap::default());
        assert_eq!(of_nulls::<Endpoints>(&["metadata", "subsets"]), Endpoints::default());
        let subset = r#"{"subsets":[{"addresses":null,"notReadyAddresses":null,"ports":null}]}"#;
        assert_eq!(serde_json::from_str::<Endpoints>(subset).unwrap().subsets.len(), 1);
        let slice = ["metadata", "addressType", "endpoints", "ports"];
        assert_eq!(of_nulls::<EndpointSlice>(&slice), EndpointSlice::default());
        let endpoint = r#"{"endpoints":[{"addresses":null,"conditions":null,"hints":{"forZones":null}}]}"#;
        assert_eq!(serde_json::from_str::<EndpointSlice>(endpoint).unwrap().endpoints.len(), 1);
        let list: List<Service> = serde_json::from_str(r#"{"metadata":{"continue":null},"items":null}"#).unwrap();
        assert!(list.items.is_empty() && list.metadata.continue_token.is_empty());
        let status = r#"{"code":404,"reason":null,"message":null,"details":{"name":null,"kind":null,"causes":null}}"#;
        assert_eq!(serde_json::from_str::<Status>(status).unwrap().code, 404);
    }

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
