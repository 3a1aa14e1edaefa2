//! The ways in which the API server lets an object be changed, as requests of plain JSON.

use gimbal_testkit::cluster::Method;
use serde_json::{Value, json};

/// A way to change an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// The whole object.
    Put,
    /// What is to be otherwise; a list is whole.
    MergePatch,
    /// Operations on places.
    JsonPatch,
    /// The whole object as its manager wants it.
    Apply,
    /// The same, whoever else wants it otherwise.
    ForcedApply,
}

/// Whom fields belong to that are applied.
const MANAGER: &str = "fieldManager=gimbal-writer";

/// A request that changes an object.
pub struct Request {
    /// Method.
    pub method: Method,
    /// What follows the object's path.
    pub query: String,
    /// Content type.
    pub kind: &'static str,
    /// Body.
    pub body: String,
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Put, Self::MergePatch, Self::JsonPatch, Self::Apply, Self::ForcedApply];

    /// As tables name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "PUT",
            Self::MergePatch => "merge patch",
            Self::JsonPatch => "JSON patch",
            Self::Apply => "apply",
            Self::ForcedApply => "apply with force",
        }
    }

    /// Makes a slice of the one that stands there; `slice` is the whole of what is wanted, with UID and version as they
    /// must still be, and differs from what was written last in the endpoint at `changed` alone.
    #[must_use]
    pub fn request(self, slice: &Value, changed: usize) -> Request {
        let (uid, version) = (&slice["metadata"]["uid"], &slice["metadata"]["resourceVersion"]);
        let put =
            |kind, body: &Value| Request { method: Method::PUT, query: String::new(), kind, body: body.to_string() };
        let patch = |kind, query: &str, body: &Value| Request {
            method: Method::PATCH,
            query: query.to_owned(),
            kind,
            body: body.to_string(),
        };
        match self {
            Self::Put => put("application/json", slice),
            Self::MergePatch => {
                let body = json!({
                    "metadata": {"uid": uid, "resourceVersion": version}, "endpoints": slice["endpoints"],
                });
                patch("application/merge-patch+json", "", &body)
            }
            Self::JsonPatch => {
                let at = |path: String, value: &Value| json!({"op": "replace", "path": path, "value": value});
                let address = &slice["endpoints"][changed]["addresses"][0];
                let body = json!([
                    at("/metadata/uid".to_owned(), uid),
                    at("/metadata/resourceVersion".to_owned(), version),
                    at(format!("/endpoints/{changed}/addresses/0"), address),
                ]);
                patch("application/json-patch+json", "", &body)
            }
            Self::Apply => patch("application/apply-patch+yaml", &format!("?{MANAGER}"), slice),
            Self::ForcedApply => patch("application/apply-patch+yaml", &format!("?{MANAGER}&force=true"), slice),
        }
    }

    /// Creates a slice in the way in which this verb expects to find it.
    #[must_use]
    pub fn create(self, slice: &Value) -> Request {
        match self {
            Self::Apply | Self::ForcedApply => Self::Apply.request(slice, 0),
            _ => Request {
                method: Method::POST,
                query: String::new(),
                kind: "application/json",
                body: slice.to_string(),
            },
        }
    }
}
