//! The object.

use gimbal_kubernetes_definition::{Column, CustomKind, ObjectScope, Validation};
use gimbal_kubernetes_objects::{Kind, LifecycleMeta, Meta, Object};
use gimbal_model::BackendName;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::status::readable;
use crate::{BackendResourceStatus, BackendSpec, InvalidSpec};

/// An object of the kind `Backend`. Its spec is read apart from it, so that one that cannot be understood spoils no list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BackendResource {
    /// Metadata. Its name is the backend's.
    pub metadata: LifecycleMeta,
    /// The spec as it was written.
    pub spec: Value,
    /// What the writer says of it.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "readable")]
    pub status: Option<BackendResourceStatus>,
}

impl Object for BackendResource {
    const KIND: Kind = Kind { kind: "Backend", api_version: "gimbal.projectcontour.io/v1alpha1", plural: "backends" };

    fn meta(&self) -> &Meta {
        &self.metadata.meta
    }
}

impl CustomKind for BackendResource {
    type Spec = BackendSpec;
    type Status = BackendResourceStatus;
    const PACKAGE: &str = "crates/mirror/backend";
    const SCOPE: ObjectScope = ObjectScope::Cluster;
    const SINGULAR: &str = "backend";
    const SHORT: &str = "gb";
    const DESCRIPTION: &str =
        "A cluster or cloud whose services are published in the Gimbal cluster: its identity and its policy.";
    const READY: &str = "Whether its spec is in force, and what its source has is known";
    const COLUMNS: &[Column] = &[
        Column::text("IDENTITY", "Name in the certificate of its agent", ".spec.identity"),
        Column::text("MODE", "admit or quarantine", ".spec.mode"),
        Column::text(
            "CONNECTED",
            "Whether its agent is connected",
            r#".status.conditions[?(@.type=="Connected")].status"#,
        ),
        Column::text(
            "SYNCED",
            "Whether what its agent says is written",
            r#".status.conditions[?(@.type=="Synced")].status"#,
        ),
        Column::number("SERVICES", "Services that its agent offers", ".status.services"),
        Column::number("ENDPOINTS", "Endpoints in the Gimbal cluster", ".status.endpoints"),
    ];
    const SPEC_IS_REQUIRED: bool = true;
    const VALIDATIONS: &[Validation] = &[Validation {
        rule: "self.metadata.name.matches('^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$')",
        message: "the name of a backend has lower-case letters, digits and '-', begins with a letter, ends with a letter or digit, \
                  and has at most 63 characters",
    }];
}

impl BackendResource {
    /// Returns the name of the backend.
    ///
    /// # Errors
    /// Returns why the object's name is not a backend's.
    pub fn name(&self) -> Result<BackendName, InvalidSpec> {
        BackendName::parse(&self.metadata.meta.name).map_err(|error| InvalidSpec(error.to_string()))
    }

    /// Reads the spec.
    ///
    /// # Errors
    /// Returns why it cannot be used. The API server refuses most of that, but not what it learned to refuse only later.
    pub fn read_spec(&self) -> Result<BackendSpec, InvalidSpec> {
        let spec: BackendSpec =
            BackendSpec::deserialize(&self.spec).map_err(|error| InvalidSpec(format!("spec: {error}")))?;
        spec.on_loss.check().map_err(|error| InvalidSpec(format!("spec.onLoss: {error}")))?;
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{AnswerResult, ConditionType};

    #[test]
    fn conditions_of_others_are_passed_over_and_the_own_have_one_order() {
        let condition = |type_: &str| {
            json!({"type": type_, "status": "True", "reason": "R", "message": "", "lastTransitionTime": "t",
                "observedGeneration": 1})
        };
        let conditions = ["DiscovererReady", "Synced", "Ready"].map(condition);
        let object = json!({"metadata": {"name": "a"}, "status": {"services": 3, "conditions": conditions}});
        let object: BackendResource = serde_json::from_value(object).unwrap();
        let status = object.status.unwrap();
        let types: Vec<_> = status.conditions.iter().map(|condition| condition.type_).collect();
        assert_eq!((types, status.services), (vec![ConditionType::Ready, ConditionType::Synced], 3));
    }

    #[test]
    fn what_only_a_later_release_knows_takes_nothing_else_with_it() {
        let removal = |phase: &str| {
            json!({"phase": phase, "id": "a-1", "services": 1, "endpointSlices": 1, "endpointsObjects": 0, "endpoints": 8,
                "first": []})
        };
        let answer =
            |key: &str, result: &str| json!({"annotation": key, "value": "1", "result": result, "message": ""});
        let read = |removal: Value, answers: Value| {
            let object = json!({"metadata": {}, "status": {"services": 3, "answers": answers, "removal": removal}});
            serde_json::from_value::<BackendResource>(object).unwrap().status.unwrap()
        };
        let answers = json!([answer("one", "Done"), {"annotation": "two"}, answer("three", "Postponed")]);
        let status = read(removal("Paused"), answers);
        let read_ones: Vec<_> = status.answers.iter().map(|answer| (&*answer.annotation, answer.result)).collect();
        assert_eq!(read_ones, [("one", AnswerResult::Done), ("three", AnswerResult::Done)], "each was answered");
        assert_eq!((status.removal, status.services), (None, 3));
        let status = read(removal("Removed"), json!(null));
        assert_eq!((status.removal.map(|removal| removal.id).as_deref(), status.answers.len()), (Some("a-1"), 0));
    }

    #[test]
    fn a_source_is_read_with_what_is_left_out() {
        let source = json!({"openstack": {"credentialsSecret": {"name": "osp1"}, "projects": ["a", "b*"]}});
        let spec = json!({"identity": "spiffe://gimbal.example/backend/a", "source": source});
        let object: BackendResource = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
        let source = object.read_spec().unwrap().source.unwrap();
        let cloud = source.openstack.unwrap();
        assert_eq!((cloud.credentials_secret.name.0.as_str(), cloud.mode.as_str()), ("osp1", "auto"));
        for wrong in [
            json!({"openstack": {"credentialsSecret": {"name": "A_b"}}}),
            json!({"openstack": {"credentialsSecret": {"name": "a"}, "projects": ["a,b"]}}),
            json!({"kubernetes": {}}),
            json!({"somewhere": {}}),
        ] {
            let spec = json!({"identity": "a", "source": wrong});
            let object: BackendResource = serde_json::from_value(json!({"spec": spec})).unwrap();
            assert!(object.read_spec().is_err(), "{wrong}");
        }
    }
}
