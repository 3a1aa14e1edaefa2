//! EndpointSlices in the API server's protobuf form, with the fields that Gimbal writes: to measure what that saves
//! compared with JSON. Field numbers are those of `generated.proto` of k8s.io/api and k8s.io/apimachinery.

use std::collections::BTreeMap;

use prost::Message;
use serde_json::{Value, json};

/// The API server's content type for it.
pub const KIND: &str = "application/vnd.kubernetes.protobuf";
/// The first bytes of every message.
const MAGIC: &[u8] = b"k8s\0";

#[derive(Clone, PartialEq, Message)]
struct Unknown {
    #[prost(message, optional, tag = "1")]
    type_meta: Option<TypeMeta>,
    #[prost(bytes = "vec", tag = "2")]
    raw: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct TypeMeta {
    #[prost(string, tag = "1")]
    api_version: String,
    #[prost(string, tag = "2")]
    kind: String,
}

#[derive(Clone, PartialEq, Message)]
struct Slice {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Meta>,
    #[prost(message, repeated, tag = "2")]
    endpoints: Vec<Endpoint>,
    #[prost(message, repeated, tag = "3")]
    ports: Vec<Port>,
    #[prost(string, tag = "4")]
    address_type: String,
}

#[derive(Clone, PartialEq, Message)]
struct Meta {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(string, tag = "5")]
    uid: String,
    #[prost(string, tag = "6")]
    resource_version: String,
    #[prost(btree_map = "string, string", tag = "11")]
    labels: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
struct Endpoint {
    #[prost(string, repeated, tag = "1")]
    addresses: Vec<String>,
    #[prost(message, optional, tag = "2")]
    conditions: Option<Conditions>,
}

#[derive(Clone, PartialEq, Message)]
struct Conditions {
    #[prost(bool, optional, tag = "1")]
    ready: Option<bool>,
    #[prost(bool, optional, tag = "2")]
    serving: Option<bool>,
    #[prost(bool, optional, tag = "3")]
    terminating: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
struct Port {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    protocol: Option<String>,
    #[prost(int32, optional, tag = "3")]
    port: Option<i32>,
}

/// Whether an answer is in this form.
#[must_use]
pub fn is(answer: &[u8]) -> bool {
    answer.starts_with(MAGIC)
}

/// Encodes a slice.
#[must_use]
pub fn encode(slice: &Value) -> Vec<u8> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let metadata = &slice["metadata"];
    let labels = metadata["labels"].as_object().into_iter().flatten();
    let endpoint = |endpoint: &Value| {
        let conditions = &endpoint["conditions"];
        Endpoint {
            addresses: list(&endpoint["addresses"]).iter().map(text).collect(),
            conditions: Some(Conditions {
                ready: conditions["ready"].as_bool(),
                serving: conditions["serving"].as_bool(),
                terminating: conditions["terminating"].as_bool(),
            }),
        }
    };
    let port = |port: &Value| Port {
        name: port["name"].as_str().map(str::to_owned),
        protocol: port["protocol"].as_str().map(str::to_owned),
        port: port["port"].as_i64().and_then(|port| port.try_into().ok()),
    };
    let raw = Slice {
        metadata: Some(Meta {
            name: text(&metadata["name"]),
            namespace: text(&metadata["namespace"]),
            uid: text(&metadata["uid"]),
            resource_version: text(&metadata["resourceVersion"]),
            labels: labels.map(|(key, value)| (key.clone(), text(value))).collect(),
        }),
        endpoints: list(&slice["endpoints"]).iter().map(endpoint).collect(),
        ports: list(&slice["ports"]).iter().map(port).collect(),
        address_type: text(&slice["addressType"]),
    }
    .encode_to_vec();
    let type_meta = TypeMeta { api_version: "discovery.k8s.io/v1".to_owned(), kind: "EndpointSlice".to_owned() };
    let mut message = MAGIC.to_vec();
    message.extend(Unknown { type_meta: Some(type_meta), raw }.encode_to_vec());
    message
}

/// Decodes the fields of an answer that the next write needs.
///
/// # Errors
/// It is not such a message.
pub fn decode(answer: &[u8]) -> Result<Value, prost::DecodeError> {
    let envelope = Unknown::decode(answer.strip_prefix(MAGIC).unwrap_or_default())?;
    let meta = Slice::decode(&*envelope.raw)?.metadata.unwrap_or_default();
    Ok(json!({"metadata": {"name": meta.name, "uid": meta.uid, "resourceVersion": meta.resource_version}}))
}
