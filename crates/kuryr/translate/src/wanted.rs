//! Which Services get a load balancer.

use gimbal_kubernetes_objects::BalancedService;
use gimbal_kuryr_crd::names::annotations;
use gimbal_kuryr_model::{CloudFacts, Text, VipMode};

/// How the controller was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerSettings {
    /// The class of Services that is served beside those without one.
    pub load_balancer_class: Option<Text>,
    /// Whether Services of type `ClusterIP` are served.
    pub cluster_ip_services: bool,
    /// Whether a load balancer is made only when there are endpoints for it, as Kuryr did.
    pub require_endpoints: bool,
}

impl Default for ControllerSettings {
    fn default() -> Self {
        Self { load_balancer_class: None, cluster_ip_services: true, require_endpoints: false }
    }
}

/// Why a Service has no load balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum NotBalanced {
    /// It is going.
    #[error("it is being deleted")]
    Deleted,
    /// There is no address to balance.
    #[error("it is headless")]
    Headless,
    /// Only two types are served.
    #[error("its type is neither ClusterIP nor LoadBalancer")]
    Type,
    /// The API server itself.
    #[error("it is the Service of the API server")]
    ApiServer,
    /// Someone else serves it.
    #[error("its loadBalancerClass is another one")]
    Class,
    /// Switched off.
    #[error("load balancers for type ClusterIP are switched off")]
    ClusterIpOff,
    /// The address that it needs is not made.
    #[error("the cloud chooses the addresses of load balancers, and type ClusterIP needs its own")]
    Allocated,
    /// It waits for the API server.
    #[error("it has no cluster IP yet")]
    NoClusterIp,
    /// Written by an early release of Kuryr.
    #[error("it has an annotation of an early Kuryr, which has to convert it first")]
    OldAnnotation,
    /// It waits for endpoints.
    #[error("it has no endpoints yet, and --require-endpoints is set")]
    NoEndpoints,
    /// Another controller may serve it.
    #[error("no load balancers are made in its namespace (--namespaces, --exclude-namespaces)")]
    Namespace,
}

impl NotBalanced {
    /// Whether a load balancer that exists stays: it follows from how controller or writer were started, and not from what the Service
    /// says alone, or from an annotation that came with an old manifest.
    #[must_use]
    pub fn leaves_what_exists(self) -> bool {
        matches!(self, Self::Class | Self::ClusterIpOff | Self::Allocated | Self::Namespace | Self::OldAnnotation)
    }
}

/// Returns why a Service has no load balancer; `None` if it is to have one. A Service of type `LoadBalancer` is served if it
/// has no class, or ours.
#[must_use]
pub fn unwanted(
    service: &BalancedService,
    settings: &ControllerSettings,
    facts: Option<&CloudFacts>,
) -> Option<NotBalanced> {
    let (meta, spec) = (&service.metadata.meta, &service.spec);
    let allocated = facts.is_some_and(|facts| facts.vip == VipMode::Allocate);
    let cluster_ip = spec.cluster_ip.as_deref().unwrap_or_default();
    if service.metadata.is_being_deleted() {
        return Some(NotBalanced::Deleted);
    }
    if cluster_ip == "None" {
        return Some(NotBalanced::Headless);
    }
    match spec.type_.as_deref().unwrap_or("ClusterIP") {
        "ClusterIP" if !settings.cluster_ip_services => return Some(NotBalanced::ClusterIpOff),
        "ClusterIP" if allocated => return Some(NotBalanced::Allocated),
        "ClusterIP" => {}
        "LoadBalancer" => {
            let class = spec.load_balancer_class.as_ref();
            if class.is_some() && class != settings.load_balancer_class.as_ref() {
                return Some(NotBalanced::Class);
            }
        }
        _ => return Some(NotBalanced::Type),
    }
    if (&*meta.namespace, &*meta.name) == ("default", "kubernetes") {
        return Some(NotBalanced::ApiServer);
    }
    if meta.annotations.contains_key(annotations::LBAAS_SPEC) {
        return Some(NotBalanced::OldAnnotation);
    }
    (cluster_ip.is_empty() && !allocated).then_some(NotBalanced::NoClusterIp)
}
