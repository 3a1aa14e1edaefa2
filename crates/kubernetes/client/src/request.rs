//! Builds HTTP requests for the API server. Pure.

use bytes::Bytes;
use gimbal_kubernetes_objects::{Kind, Meta, Object};
use http::{Method, Request, header};
use serde::Serialize;
use serde_json::Value;

use crate::{ApiError, WatchScope};

/// A request without the headers and credentials that the client adds.
pub(crate) type Call = Request<Bytes>;

/// Which part of an object a write changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subresource {
    /// Everything but the status, if the kind has a status subresource.
    Main,
    /// The status alone: the server ignores every other field.
    Status,
}

/// Adds `apiVersion` and `kind`, which the lean structs do not hold.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Typed<'a, T> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    object: &'a T,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeleteOptions<'a> {
    api_version: &'static str,
    kind: &'static str,
    preconditions: Preconditions<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Preconditions<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    resource_version: &'a str,
}

/// Turns off the server's search for unknown fields. It is on by default and costs time for a warning that is not read;
/// the bodies sent here have no unknown fields.
const SKIP_FIELD_VALIDATION: &str = "?fieldValidation=Ignore";

const APPLY_PATCH: header::HeaderValue = header::HeaderValue::from_static("application/apply-patch+yaml");
const MERGE_PATCH: header::HeaderValue = header::HeaderValue::from_static("application/merge-patch+json");

pub(crate) fn get(kind: Kind, namespace: &str, name: &str) -> Result<Call, ApiError> {
    build(Method::GET, path(kind, namespace, Some(name))?, Bytes::new())
}

pub(crate) fn create<T: Object>(object: &T) -> Result<Call, ApiError> {
    build(Method::POST, path(T::KIND, &object.meta().namespace, None)? + SKIP_FIELD_VALIDATION, body(object)?)
}

pub(crate) fn replace<T: Object>(object: &T, part: Subresource) -> Result<Call, ApiError> {
    build(Method::PUT, object_path(T::KIND, object.meta(), part)? + SKIP_FIELD_VALIDATION, body(object)?)
}

pub(crate) fn patch<T: Object>(object: &T) -> Result<Call, ApiError> {
    as_merge_patch(object_path(T::KIND, object.meta(), Subresource::Main)?, body(object)?)
}

/// A merge patch of the fields in `change`, which must be a JSON object, on the condition that the object still has the
/// UID and the version in `meta`.
pub(crate) fn merge_patch(
    kind: Kind,
    meta: &Meta,
    part: Subresource,
    change: &impl Serialize,
) -> Result<Call, ApiError> {
    let mut change = serde_json::to_value(change).map_err(|error| unwritable(&error))?;
    let Value::Object(fields) = &mut change else { return Err(unwritable(&"a merge patch must be a JSON object")) };
    let metadata = fields.entry("metadata").or_insert_with(|| Value::Object(serde_json::Map::new()));
    let Value::Object(metadata) = metadata else { return Err(unwritable(&"metadata must be a JSON object")) };
    for (key, value) in [("uid", &meta.uid), ("resourceVersion", &meta.resource_version)] {
        if !value.is_empty() {
            metadata.insert(key.to_owned(), Value::String(value.to_string()));
        }
    }
    as_merge_patch(object_path(kind, meta, part)?, json(&change)?)
}

/// Applies the object as the wish of `manager`, whoever had the fields before. It must have the UID in its metadata.
pub(crate) fn apply<T: Object>(object: &T, manager: &str) -> Result<Call, ApiError> {
    as_apply_patch(T::KIND, object.meta(), Subresource::Main, manager, body(object)?)
}

/// Applies a status, to the object with the name, the UID and, if there is one, the version in `meta`.
pub(crate) fn apply_status(kind: Kind, meta: &Meta, status: &impl Serialize, manager: &str) -> Result<Call, ApiError> {
    let mut metadata = serde_json::json!({"name": meta.name, "uid": meta.uid});
    if !meta.namespace.is_empty() {
        metadata["namespace"] = Value::String(meta.namespace.to_string());
    }
    // Without it, who was stopped for a while would take back what was said meanwhile.
    if !meta.resource_version.is_empty() {
        metadata["resourceVersion"] = Value::String(meta.resource_version.to_string());
    }
    let object = serde_json::json!({"metadata": metadata, "status": status});
    let typed = Typed { api_version: kind.api_version, kind: kind.kind, object: &object };
    as_apply_patch(kind, meta, Subresource::Status, manager, json(&typed)?)
}

fn as_apply_patch(kind: Kind, meta: &Meta, part: Subresource, manager: &str, body: Bytes) -> Result<Call, ApiError> {
    // Without it the server would make the object where there is none, or take that of somebody else.
    if meta.uid.is_empty() {
        return Err(unwritable(&"an object that is applied must have the UID of one that was read"));
    }
    let mut uri = object_path(kind, meta, part)? + "?force=true";
    parameter(&mut uri, "fieldManager", Some(manager));
    let mut call = build(Method::PATCH, uri, body)?;
    call.headers_mut().insert(header::CONTENT_TYPE, APPLY_PATCH);
    Ok(call)
}

pub(crate) fn delete(kind: Kind, namespace: &str, name: &str, uid: &str, version: &str) -> Result<Call, ApiError> {
    let preconditions = Preconditions { uid, resource_version: version };
    let options = DeleteOptions { api_version: "v1", kind: "DeleteOptions", preconditions };
    build(Method::DELETE, path(kind, namespace, Some(name))?, json(&options)?)
}

/// Returns the request for one page of at most `limit` objects.
pub(crate) fn list(kind: Kind, scope: &WatchScope, limit: u32, continue_token: Option<&str>) -> Result<Call, ApiError> {
    let mut uri = format!("{}?limit={limit}", path(kind, scope.namespace.as_deref().unwrap_or_default(), None)?);
    selectors(&mut uri, scope);
    parameter(&mut uri, "continue", continue_token);
    build(Method::GET, uri, Bytes::new())
}

pub(crate) fn watch(kind: Kind, scope: &WatchScope, version: &str, seconds: u64) -> Result<Call, ApiError> {
    let path = path(kind, scope.namespace.as_deref().unwrap_or_default(), None)?;
    let mut uri = format!("{path}?watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}");
    selectors(&mut uri, scope);
    parameter(&mut uri, "resourceVersion", Some(version));
    build(Method::GET, uri, Bytes::new())
}

fn selectors(uri: &mut String, scope: &WatchScope) {
    parameter(uri, "labelSelector", scope.label_selector.as_deref());
    parameter(uri, "fieldSelector", scope.field_selector.as_deref());
}

fn as_merge_patch(uri: String, body: Bytes) -> Result<Call, ApiError> {
    let mut call = build(Method::PATCH, uri, body)?;
    call.headers_mut().insert(header::CONTENT_TYPE, MERGE_PATCH);
    Ok(call)
}

fn body<T: Object>(object: &T) -> Result<Bytes, ApiError> {
    json(&Typed { api_version: T::KIND.api_version, kind: T::KIND.kind, object })
}

fn json(value: &impl Serialize) -> Result<Bytes, ApiError> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|error| unwritable(&error))
}

fn build(method: Method, uri: String, body: Bytes) -> Result<Call, ApiError> {
    let mut request = Request::builder().method(method).uri(uri).header(header::ACCEPT, "application/json");
    if !body.is_empty() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    request.body(body).map_err(|error| unwritable(&error))
}

fn unwritable(problem: &dyn std::fmt::Display) -> ApiError {
    ApiError::Invalid { message: format!("cannot write the request: {problem}"), status: None }
}

fn object_path(kind: Kind, meta: &Meta, part: Subresource) -> Result<String, ApiError> {
    let path = path(kind, &meta.namespace, Some(&meta.name))?;
    Ok(match part {
        Subresource::Main => path,
        Subresource::Status => path + "/status",
    })
}

/// Returns the path of one object, or of the collection if `name` is `None`. An empty namespace means all namespaces.
fn path(kind: Kind, namespace: &str, name: Option<&str>) -> Result<String, ApiError> {
    let mut path = kind.root();
    if !namespace.is_empty() {
        path.push_str("/namespaces");
        segment(&mut path, namespace)?;
    }
    segment(&mut path, kind.plural)?;
    if let Some(name) = name {
        segment(&mut path, name)?;
    }
    Ok(path)
}

/// Appends one path segment. Names can come from a backend, so one that would lead to another object is refused.
fn segment(path: &mut String, text: &str) -> Result<(), ApiError> {
    if text.is_empty() || text == "." || text == ".." || text.contains(['/', '%']) {
        return Err(ApiError::Invalid { message: format!("{text:?} cannot be the name of an object"), status: None });
    }
    path.push('/');
    encode(path, text);
    Ok(())
}

fn parameter(uri: &mut String, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        uri.push('&');
        uri.push_str(key);
        uri.push('=');
        encode(uri, value);
    }
}

/// Percent-encodes all but RFC 3986's unreserved characters.
fn encode(into: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            into.push(char::from(byte));
        } else {
            into.push('%');
            for digit in [byte >> 4, byte & 15] {
                into.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use gimbal_kubernetes_objects::{EndpointSlice, Meta, Namespace, Service};

    use super::*;

    fn line(call: &Call) -> String {
        format!("{} {} {}", call.method(), call.uri(), String::from_utf8_lossy(call.body()))
    }

    fn meta() -> Meta {
        Meta {
            name: "web".into(),
            namespace: "team".into(),
            uid: "u".into(),
            resource_version: "7".into(),
            ..Meta::default()
        }
    }

    #[test]
    fn objects() {
        let slice = EndpointSlice { metadata: meta(), ..EndpointSlice::default() };
        let put = line(&replace(&slice, Subresource::Main).unwrap());
        assert_eq!(
            put,
            "PUT /apis/discovery.k8s.io/v1/namespaces/team/endpointslices/web?fieldValidation=Ignore \
             {\"apiVersion\":\"discovery.k8s.io/v1\",\"kind\":\"EndpointSlice\",\"metadata\":{\"name\":\"web\",\
             \"namespace\":\"team\",\"uid\":\"u\",\"resourceVersion\":\"7\"},\"addressType\":\"\",\"endpoints\":[],\"ports\":[]}"
        );
        let namespace = Namespace { metadata: Meta { name: "team".into(), ..Meta::default() } };
        assert_eq!(
            line(&create(&namespace).unwrap()),
            "POST /api/v1/namespaces?fieldValidation=Ignore {\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"team\"}}"
        );
        assert_eq!(line(&get(Service::KIND, "team", "web").unwrap()), "GET /api/v1/namespaces/team/services/web ");
    }

    #[test]
    fn merge_patches_name_the_very_object() {
        let finalizers = serde_json::json!({"metadata": {"finalizers": ["a"], "uid": "forged"}});
        let call = merge_patch(Service::KIND, &meta(), Subresource::Main, &finalizers).unwrap();
        assert_eq!(
            line(&call),
            "PATCH /api/v1/namespaces/team/services/web \
             {\"metadata\":{\"finalizers\":[\"a\"],\"resourceVersion\":\"7\",\"uid\":\"u\"}}"
        );
        assert_eq!(call.headers()[header::CONTENT_TYPE], "application/merge-patch+json");
        let status = serde_json::json!({"status": {"loadBalancer": {}}});
        assert_eq!(
            line(&merge_patch(Service::KIND, &meta(), Subresource::Status, &status).unwrap()),
            "PATCH /api/v1/namespaces/team/services/web/status \
             {\"metadata\":{\"resourceVersion\":\"7\",\"uid\":\"u\"},\"status\":{\"loadBalancer\":{}}}"
        );
        for bad in [serde_json::json!([]), serde_json::json!({"metadata": null})] {
            let refused = merge_patch(Service::KIND, &meta(), Subresource::Main, &bad);
            assert!(matches!(refused, Err(ApiError::Invalid { .. })), "{bad}");
        }
    }

    #[test]
    fn what_is_applied_names_the_very_object_and_who_wants_it() {
        let mut namespace = Namespace { metadata: Meta { name: "team".into(), ..Meta::default() } };
        assert!(matches!(apply(&namespace, "m"), Err(ApiError::Invalid { .. })), "it would make one");
        namespace.metadata.uid = "u".into();
        let call = apply(&namespace, "m").unwrap();
        assert_eq!(
            line(&call),
            "PATCH /api/v1/namespaces/team?force=true&fieldManager=m \
             {\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"team\",\"uid\":\"u\"}}"
        );
        assert_eq!(call.headers()[header::CONTENT_TYPE], "application/apply-patch+yaml");
        let call = apply_status(Service::KIND, &meta(), &serde_json::json!({"a": 1}), "m").unwrap();
        let sent: Value = serde_json::from_slice(call.body()).unwrap();
        assert_eq!(call.uri(), "/api/v1/namespaces/team/services/web/status?force=true&fieldManager=m");
        let expected = |metadata: Value| serde_json::json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "status": {"a": 1}});
        let of_version = serde_json::json!({"name": "web", "namespace": "team", "uid": "u", "resourceVersion": "7"});
        assert_eq!(sent, expected(of_version));
        let any = Meta { resource_version: "".into(), ..meta() };
        let call = apply_status(Service::KIND, &any, &serde_json::json!({"a": 1}), "m").unwrap();
        let sent: Value = serde_json::from_slice(call.body()).unwrap();
        assert_eq!(sent, expected(serde_json::json!({"name": "web", "namespace": "team", "uid": "u"})));
    }

    #[test]
    fn deletes_name_the_very_object() {
        assert_eq!(
            line(&delete(Service::KIND, "team", "web", "u", "7").unwrap()),
            "DELETE /api/v1/namespaces/team/services/web {\"apiVersion\":\"v1\",\"kind\":\"DeleteOptions\",\
             \"preconditions\":{\"uid\":\"u\",\"resourceVersion\":\"7\"}}"
        );
    }

    #[test]
    fn lists_and_watches() {
        let all = WatchScope::default();
        let some = WatchScope {
            namespace: Some("team".into()),
            label_selector: Some("a/b=c,!d".into()),
            field_selector: Some("metadata.name=x".into()),
        };
        assert_eq!(line(&list(Service::KIND, &all, 500, None).unwrap()), "GET /api/v1/services?limit=500 ");
        assert_eq!(
            line(&list(Service::KIND, &some, 7, Some("a+b")).unwrap()),
            "GET /api/v1/namespaces/team/services?limit=7&labelSelector=a%2Fb%3Dc%2C%21d\
             &fieldSelector=metadata.name%3Dx&continue=a%2Bb "
        );
        assert_eq!(
            line(&watch(EndpointSlice::KIND, &all, "12", 250).unwrap()),
            "GET /apis/discovery.k8s.io/v1/endpointslices?watch=true&allowWatchBookmarks=true&timeoutSeconds=250&resourceVersion=12 "
        );
        assert_eq!(
            line(&watch(Service::KIND, &some, "12", 250).unwrap()),
            "GET /api/v1/namespaces/team/services?watch=true&allowWatchBookmarks=true&timeoutSeconds=250\
             &labelSelector=a%2Fb%3Dc%2C%21d&fieldSelector=metadata.name%3Dx&resourceVersion=12 "
        );
    }

    #[test]
    fn a_name_never_leads_elsewhere() {
        for name in ["", ".", "..", "../secrets/x", "a%2Fb", "a/b"] {
            assert!(get(Service::KIND, "team", name).is_err(), "{name:?}");
        }
        for namespace in ["..", "a/b"] {
            assert!(get(Service::KIND, namespace, "web").is_err(), "{namespace:?}");
        }
        let odd = line(&get(Service::KIND, "team", "a?b#c d").unwrap());
        assert_eq!(odd, "GET /api/v1/namespaces/team/services/a%3Fb%23c%20d ");
    }
}
