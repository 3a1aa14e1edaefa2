//! A slice that is changed again and again by one verb.

use gimbal_kubernetes_objects::keys;
use gimbal_testkit::cluster::Method;
use gimbal_testkit::cluster::{Api, Refused};
use gimbal_tests::slice_of;
use serde_json::{Value, json};

use crate::change::address;
use crate::protobuf;
use crate::verb::{Request, Verb};

/// The namespace of all subjects.
pub const NAMESPACE: &str = "verbs";
const PATH: &str = "/apis/discovery.k8s.io/v1/namespaces/verbs/endpointslices";
/// The endpoint that is changed.
const CHANGED: usize = 3;
/// The label that a manual edit adds.
const LABEL: &str = "by-hand";

/// One slice that is changed again and again by one verb.
pub struct Subject {
    /// How the subject is changed.
    pub verb: Verb,
    /// The API server's last answer.
    pub answer: Value,
    wanted: Value,
    next: u32,
}

impl Subject {
    /// Creates a subject with `endpoints` endpoints.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn create(api: &Api, verb: Verb, endpoints: u32, number: usize) -> anyhow::Result<Self> {
        let name = format!("{}-{endpoints}-{number}", verb.name().to_lowercase().replace(' ', "-"));
        let mut wanted = slice_of(NAMESPACE, &name, "0", 1, endpoints);
        wanted["metadata"]["labels"][keys::SLICE_MANAGED_BY] = json!(keys::MANAGER);
        let endpoints = wanted["endpoints"].as_array_mut().into_iter().flatten();
        for fields in endpoints.filter_map(Value::as_object_mut) {
            // Gimbal writes neither of these fields.
            fields.retain(|key, _| !matches!(&**key, "nodeName" | "targetRef"));
        }
        let mut subject = Self { verb, answer: Value::Null, wanted, next: 0 };
        let request = verb.create(&subject.wanted);
        let path = if request.method == Method::POST { PATH.to_owned() } else { subject.path() };
        subject.send(api, &path, request).await?;
        Ok(subject)
    }

    /// Replaces an endpoint by a new one. Returns the numbers of bytes sent and received.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn change(&mut self, api: &Api) -> Result<(usize, usize), Refused> {
        self.next += 1;
        self.wanted["endpoints"][CHANGED]["addresses"][0] = json!(address(self.next).to_string());
        let request = self.verb.request(&self.wanted, CHANGED);
        self.send(api, &self.path(), request).await
    }

    /// Returns in words what a change leaves of a manual edit, which adds a label and changes an endpoint.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn after_an_edit(&mut self, api: &Api) -> anyhow::Result<String> {
        let mut edit = self.answer.clone();
        edit["metadata"]["labels"][LABEL] = json!("x");
        edit["endpoints"][0]["addresses"][0] = json!("10.0.9.9");
        edit["metadata"]["managedFields"] = Value::Null;
        let path = format!("{}?fieldManager=kubectl-edit", self.path());
        let json = "application/json";
        let edited = api.exchange(Method::PUT, &path, (json, json), edit.to_string().into_bytes()).await?;
        self.learn(&edited)?;
        let outcome = match self.change(api).await {
            Ok(_) => {
                let label = self.answer["metadata"]["labels"].get(LABEL).is_some();
                let endpoint = self.answer["endpoints"][0] != self.wanted["endpoints"][0];
                let stays = |stays: bool| if stays { "stays" } else { "is gone" };
                format!("the added label {}, the edited endpoint {}", stays(label), stays(endpoint))
            }
            Err(refused) => format!("it is refused ({})", refused.code),
        };
        Ok(format!("one endpoint changed by {} after an edit by hand: {outcome}", self.verb.name()))
    }

    fn path(&self) -> String {
        format!("{PATH}/{}", self.wanted["metadata"]["name"].as_str().unwrap_or_default())
    }

    async fn send(&mut self, api: &Api, path: &str, request: Request) -> Result<(usize, usize), Refused> {
        let (path, sent) = (format!("{path}{}", request.query), request.body.len());
        let answer = api.exchange(request.method, &path, (request.kind, request.accepted), request.body).await?;
        self.learn(&answer)?;
        Ok((sent, answer.len()))
    }

    /// Records the stored object from the answer, for the next change.
    fn learn(&mut self, answer: &[u8]) -> Result<(), Refused> {
        let unreadable = |message: String| Refused { code: 200, message };
        self.answer = if protobuf::is(answer) {
            protobuf::decode(answer).map_err(|error| unreadable(error.to_string()))?
        } else {
            serde_json::from_slice(answer).map_err(|error| unreadable(error.to_string()))?
        };
        for field in ["uid", "resourceVersion"] {
            self.wanted["metadata"][field] = self.answer["metadata"][field].clone();
        }
        Ok(())
    }
}
