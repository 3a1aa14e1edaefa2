//! The ways to change an object that the API server offers, as requests of plain JSON.

use gimbal_testkit::cluster::Method;
use serde_json::{Value, json};

use crate::protobuf;

const JSON: &str = "application/json";
/// See <https://kubernetes.io/docs/reference/using-api/api-concepts/#metadata-only-fetches>.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// A way to change an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// The whole object.
    Put,
    /// The whole object, without the server's search for unknown fields.
    UncheckedPut,
    /// The whole object; the answer has only the metadata.
    PutForMetadata,
    /// Both of these.
    UncheckedPutForMetadata,
    /// The whole object, sent and answered as protobuf.
    ProtobufPut,
    /// The fields that change; a list is replaced as a whole.
    MergePatch,
    /// Operations on paths.
    JsonPatch,
    /// Server-side apply of the whole object.
    Apply,
    /// Server-side apply that also takes over other managers' fields.
    ForcedApply,
}

/// The field manager of applied fields.
const MANAGER: &str = "fieldManager=gimbal-writer";

/// A request that changes an object.
pub struct Request {
    /// Method.
    pub method: Method,
    /// Query, which follows the object's path.
    pub query: String,
    /// Content type.
    pub kind: &'static str,
    /// Accepted content type of the answer.
    pub accepted: &'static str,
    /// Body.
    pub body: Vec<u8>,
}

impl Verb {
    /// All verbs.
    pub const ALL: [Self; 9] = [
        Self::Put,
        Self::UncheckedPut,
        Self::PutForMetadata,
        Self::UncheckedPutForMetadata,
        Self::ProtobufPut,
        Self::MergePatch,
        Self::JsonPatch,
        Self::Apply,
        Self::ForcedApply,
    ];

    /// Returns the name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "PUT",
            Self::UncheckedPut => "unchecked PUT",
            Self::PutForMetadata => "PUT for metadata",
            Self::UncheckedPutForMetadata => "unchecked PUT for metadata",
            Self::ProtobufPut => "PUT as protobuf",
            Self::MergePatch => "merge patch",
            Self::JsonPatch => "JSON patch",
            Self::Apply => "apply",
            Self::ForcedApply => "apply with force",
        }
    }

    /// Whether the verb leaves the same object as a PUT and differs only in how the request is made.
    #[must_use]
    pub fn is_put_otherwise(self) -> bool {
        use Verb::{ProtobufPut, PutForMetadata, UncheckedPut, UncheckedPutForMetadata};
        matches!(self, UncheckedPut | PutForMetadata | UncheckedPutForMetadata | ProtobufPut)
    }

    /// Returns the request that changes the stored slice. `slice` is the whole desired object, with the UID and version
    /// that it must still have; it differs from the last written one only in the endpoint at `changed`.
    #[must_use]
    pub fn request(self, slice: &Value, changed: usize) -> Request {
        let (uid, version) = (&slice["metadata"]["uid"], &slice["metadata"]["resourceVersion"]);
        let put = |kind, query: &str, accepted, body| Request {
            method: Method::PUT,
            query: query.to_owned(),
            kind,
            accepted,
            body,
        };
        let patch = |kind, query: &str, body: &Value| Request {
            method: Method::PATCH,
            query: query.to_owned(),
            kind,
            accepted: JSON,
            body: body.to_string().into_bytes(),
        };
        let whole = || slice.to_string().into_bytes();
        match self {
            Self::Put => put(JSON, "", JSON, whole()),
            Self::UncheckedPut => put(JSON, "?fieldValidation=Ignore", JSON, whole()),
            Self::PutForMetadata => put(JSON, "", METADATA, whole()),
            Self::UncheckedPutForMetadata => put(JSON, "?fieldValidation=Ignore", METADATA, whole()),
            Self::ProtobufPut => put(protobuf::KIND, "", protobuf::KIND, protobuf::encode(slice)),
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

    /// Returns the request that creates a slice in the way that this verb expects.
    #[must_use]
    pub fn create(self, slice: &Value) -> Request {
        match self {
            Self::Apply | Self::ForcedApply => Self::Apply.request(slice, 0),
            _ => Request {
                method: Method::POST,
                query: String::new(),
                kind: JSON,
                accepted: JSON,
                body: slice.to_string().into_bytes(),
            },
        }
    }
}
