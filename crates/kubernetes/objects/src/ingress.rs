//! `networking.k8s.io/v1`: routes of HTTP requests to Services.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Kind, LifecycleMeta, LoadBalancerStatus, Meta, Object};

/// `Ingress`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Ingress {
    /// Metadata.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub metadata: LifecycleMeta,
    /// Spec.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub spec: IngressSpec,
    /// Status.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub status: IngressStatus,
}

impl Object for Ingress {
    const KIND: Kind = Kind { kind: "Ingress", api_version: "networking.k8s.io/v1", plural: "ingresses" };
    fn meta(&self) -> &Meta {
        &self.metadata.meta
    }
}

impl Ingress {
    /// The annotations.
    #[must_use]
    pub fn annotations(&self) -> &BTreeMap<Arc<str>, Arc<str>> {
        &self.metadata.meta.annotations
    }
}

/// `IngressSpec`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressSpec {
    /// Name of the [`IngressClass`] that says who implements it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress_class_name: Option<Arc<str>>,
    /// Who gets the requests that no rule takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_backend: Option<IngressBackend>,
    /// Certificates.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::null_is_default")]
    pub tls: Vec<IngressTls>,
    /// Rules.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::null_is_default")]
    pub rules: Vec<IngressRule>,
}

/// `IngressTLS`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressTls {
    /// Hosts that the certificate is for.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::text::list")]
    pub hosts: Vec<Arc<str>>,
    /// Secret with the certificate and its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<Arc<str>>,
}

/// `IngressRule`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct IngressRule {
    /// The host of the requests; unset or empty: any. It may begin with `*.`, which stands for one label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Arc<str>>,
    /// Its paths. The API allows it to be unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpIngressRule>,
}

/// `HTTPIngressRuleValue`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HttpIngressRule {
    /// Paths.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub paths: Vec<HttpIngressPath>,
}

/// `HTTPIngressPath`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpIngressPath {
    /// The path; unset or empty: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Arc<str>>,
    /// `Exact`, `Prefix` or `ImplementationSpecific`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_type: Option<Arc<str>>,
    /// Who gets the requests.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub backend: IngressBackend,
}

/// `IngressBackend`: a Service, or anything else in the namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct IngressBackend {
    /// A Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<IngressServiceBackend>,
    /// An object of another kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<IngressResourceBackend>,
}

/// `IngressServiceBackend`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct IngressServiceBackend {
    /// Name of the Service.
    #[serde(deserialize_with = "crate::text::text")]
    pub name: Arc<str>,
    /// Its port.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub port: ServiceBackendPort,
}

/// `ServiceBackendPort`: a name or a number.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceBackendPort {
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Number; 0 or unset where there is a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<i32>,
}

/// `TypedLocalObjectReference`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressResourceBackend {
    /// Group of the kind; unset: the core group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_group: Option<Arc<str>>,
    /// Kind.
    #[serde(deserialize_with = "crate::text::text")]
    pub kind: Arc<str>,
    /// Name.
    #[serde(deserialize_with = "crate::text::text")]
    pub name: Arc<str>,
}

/// `IngressStatus`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressStatus {
    /// Where it is reached. An Ingress has no `ipMode`.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub load_balancer: LoadBalancerStatus,
}

/// `IngressClass`. It has no namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct IngressClass {
    /// Metadata.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub metadata: LifecycleMeta,
    /// Spec.
    #[serde(deserialize_with = "crate::text::null_is_default")]
    pub spec: IngressClassSpec,
}

impl Object for IngressClass {
    const KIND: Kind = Kind { kind: "IngressClass", api_version: "networking.k8s.io/v1", plural: "ingressclasses" };
    fn meta(&self) -> &Meta {
        &self.metadata.meta
    }
}

impl IngressClass {
    /// Annotation of the class that Ingresses without one have; its value is `true`.
    pub const IS_DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";

    /// Whether Ingresses without a class have this one.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.metadata.meta.annotations.get(Self::IS_DEFAULT).is_some_and(|value| &**value == "true")
    }
}

/// `IngressClassSpec`, without parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct IngressClassSpec {
    /// Who implements Ingresses of this class.
    #[serde(deserialize_with = "crate::text::text")]
    pub controller: Arc<str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ingress_is_read_and_written() {
        let json = serde_json::json!({
            "metadata": {"name": "web", "namespace": "team", "finalizers": ["a/b"], "annotations": {"c": "d"}},
            "spec": {
                "ingressClassName": "kuryr",
                "defaultBackend": {"service": {"name": "rest", "port": {"name": "http"}}},
                "tls": [{"hosts": ["www.example.com"], "secretName": "cert"}],
                "rules": [
                    {"host": "www.example.com", "http": {"paths": [
                        {"path": "/a", "pathType": "Prefix", "backend": {"service": {"name": "s1", "port": {"number": 80}}}},
                        {"backend": {"resource": {"apiGroup": "k8s.example.com", "kind": "Bucket", "name": "b"}}},
                    ]}},
                    {"host": "no-paths.example.com"},
                ],
            },
            "status": {"loadBalancer": {"ingress": [{"ip": "172.24.4.13"}]}},
        });
        let ingress: Ingress = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&ingress).unwrap(), json);
        assert_eq!((ingress.annotations().len(), ingress.spec.rules[1].http.clone()), (1, None));
    }

    #[test]
    fn null_is_as_unset() {
        let nulls = |fields: &[&str]| {
            fields.iter().map(|field| ((*field).to_owned(), serde_json::Value::Null)).collect::<serde_json::Value>()
        };
        let spec = nulls(&["ingressClassName", "defaultBackend", "tls", "rules"]);
        for ingress in [
            nulls(&["metadata", "spec", "status"]),
            serde_json::json!({"spec": spec, "status": {"loadBalancer": null}}),
            serde_json::json!({"status": {"loadBalancer": {"ingress": null}}}),
        ] {
            assert_eq!(serde_json::from_value::<Ingress>(ingress).unwrap(), Ingress::default());
        }
        let rule = nulls(&["host", "http"]);
        assert_eq!(serde_json::from_value::<IngressRule>(rule).unwrap(), IngressRule::default());
        let http = nulls(&["paths"]);
        assert_eq!(serde_json::from_value::<HttpIngressRule>(http).unwrap(), HttpIngressRule::default());
        let path = nulls(&["path", "pathType", "backend"]);
        assert_eq!(serde_json::from_value::<HttpIngressPath>(path).unwrap(), HttpIngressPath::default());
        for backend in [nulls(&["service", "resource"]), serde_json::json!({"service": null})] {
            assert_eq!(serde_json::from_value::<IngressBackend>(backend).unwrap(), IngressBackend::default());
        }
        let service = nulls(&["name", "port"]);
        assert_eq!(serde_json::from_value::<IngressServiceBackend>(service).unwrap(), IngressServiceBackend::default());
        let class = serde_json::json!({"metadata": null, "spec": {"controller": null}});
        assert_eq!(serde_json::from_value::<IngressClass>(class).unwrap(), IngressClass::default());
    }

    #[test]
    fn the_default_class_says_so() {
        for (value, is_default) in [("true", true), ("false", false), ("True", false), ("", false)] {
            let json = serde_json::json!({
                "metadata": {"name": "kuryr", "annotations": {"ingressclass.kubernetes.io/is-default-class": value}},
                "spec": {"controller": "kuryr.openstack.org/ingress"},
            });
            let class: IngressClass = serde_json::from_value(json.clone()).unwrap();
            assert_eq!(class.is_default(), is_default, "{value}");
            assert_eq!(serde_json::to_value(&class).unwrap(), json);
        }
        assert!(!IngressClass::default().is_default());
    }
}
