//! Finalizers, annotations and reasons of Events. All but those marked as new are Kuryr's (`constants.py` and the
//! handlers' calls of `add_event`).

/// The group of the custom resources.
pub const GROUP: &str = "openstack.org";

/// The controller that IngressClasses of ours name; new.
pub const INGRESS_CONTROLLER: &str = "kuryr.openstack.org/ingress";

/// Finalizers. They are set before anything is made in OpenStack, and removed after everything is gone.
pub mod finalizers {
    /// On a Service.
    pub const SERVICE: &str = "kuryr.openstack.org/service-finalizer";
    /// On a KuryrLoadBalancer.
    pub const LOAD_BALANCER: &str = "kuryr.openstack.org/kuryrloadbalancer-finalizers";
    /// On a NetworkPolicy.
    pub const NETWORK_POLICY: &str = "kuryr.openstack.org/networkpolicy-finalizer";
    /// On a Pod: removed where it is found, never set.
    pub const POD: &str = "kuryr.openstack.org/pod-finalizer";
    /// On a KuryrPort.
    pub const PORT: &str = "kuryr.openstack.org/kuryrport-finalizer";
    /// On a KuryrNetwork.
    pub const NETWORK: &str = "kuryrnetwork.finalizers.kuryr.openstack.org";
    /// On an Ingress; new.
    pub const INGRESS: &str = "kuryr.openstack.org/ingress-finalizer";
    /// On a KuryrL7Router; new.
    pub const L7_ROUTER: &str = "kuryr.openstack.org/l7router-finalizer";
}

/// Annotations on a Service, or on an Ingress.
pub mod annotations {
    /// Milliseconds that a client may be silent.
    pub const TIMEOUT_CLIENT_DATA: &str = "openstack.org/kuryr-timeout-client-data";
    /// Milliseconds that a member may be silent.
    pub const TIMEOUT_MEMBER_DATA: &str = "openstack.org/kuryr-timeout-member-data";
    /// The project that the load balancer is made in.
    pub const PROJECT: &str = "openstack.org/kuryr-project";
    /// The group of Services that share a load balancer; new.
    pub const SHARED_GROUP: &str = "openstack.org/kuryr-shared-group";
    /// The load balancer of early releases of Kuryr, before there was a custom resource. Such a Service is left alone.
    pub const LBAAS_SPEC: &str = "openstack.org/kuryr-lbaas-spec";
    /// Prefix of the annotations of cloud-provider-openstack.
    pub const CLOUD_PROVIDER: &str = "loadbalancer.openstack.org/";
    /// Of cloud-provider-openstack: labels of the nodes that are members.
    pub const NODE_SELECTOR: &str = "loadbalancer.openstack.org/node-selector";
    /// Of cloud-provider-openstack: `"true"` for a load balancer without a floating IP.
    pub const INTERNAL: &str = "service.beta.kubernetes.io/openstack-internal-load-balancer";
    /// On an Ingress: the router that it is served by, `own` or `group:<name>`; new.
    pub const L7_ROUTER: &str = "kuryr.openstack.org/l7-router";
    /// On an Ingress: `"true"` sends requests for its hosts that have a certificate from HTTP to HTTPS; new.
    pub const REDIRECT_HTTP: &str = "kuryr.openstack.org/redirect-http";
    /// Of Kubernetes, on an Ingress: its class, from the time before there was a field for it.
    pub const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";
    /// Of Kubernetes: ranges of clients, where the spec has no `loadBalancerSourceRanges`.
    pub const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
}

/// Labels.
pub mod labels {
    /// On a KuryrPort: the node of its Pod.
    pub const NODE_NAME: &str = "kuryr.openstack.org/nodeName";
    /// On a KuryrL7Router that was made for Ingresses: `shared`, `group` or `own`; new.
    pub const ROUTER_OF: &str = "kuryr.openstack.org/l7-router";
    /// On a node: load balancers leave it out.
    pub const EXCLUDE_NODE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
}

/// Reasons of the Events on a Service.
pub mod reasons {
    /// No load balancer is made for this Service.
    pub const SERVICE_SKIPPED: &str = "KuryrServiceSkipped";
    /// The Service did not get its finalizer.
    pub const ADD_SERVICE_FINALIZER_ERROR: &str = "KuryrAddServiceFinalizerError";
    /// The load balancer is being made.
    pub const ENSURE_LB: &str = "KuryrEnsureLB";
    /// The load balancer is as the Service says.
    pub const ENSURED_LB: &str = "KuryrEnsuredLB";
    /// The load balancer could not be made.
    pub const ENSURE_LB_ERROR: &str = "KuryrEnsureLBError";
    /// Something that the Service asks for is left out or refused, and the rest goes on; new.
    pub const NOT_AS_ASKED: &str = "KuryrNotAsAsked";
    /// The floating IP is being made.
    pub const ENSURE_FIP: &str = "KuryrEnsureFIP";
    /// The load balancer is replaced, for something changed that it keeps for its life.
    pub const UPDATE_PROVIDER: &str = "KuryrUpdateProvider";
    /// The load balancer is being removed.
    pub const RELEASE_LB: &str = "KuryrReleaseLB";
    /// The load balancer could not be removed.
    pub const RELEASE_LB_ERROR: &str = "KuryrReleaseLBError";
    /// A port is left out.
    pub const SKIP_LISTENER: &str = "KuryrSkipListener";
    /// The load balancer was removed by someone else.
    pub const LOAD_BALANCER_MISSING: &str = "LoadBalancerMissing";
    /// A listener was removed by someone else.
    pub const LISTENER_MISSING: &str = "LoadBalancerListenerMissing";
    /// A pool was removed by someone else.
    pub const POOL_MISSING: &str = "LoadBalancerPoolMissing";
    /// A member was removed by someone else.
    pub const MEMBER_MISSING: &str = "LoadBalancerMemberMissing";

    /// All of them.
    pub const ALL: [&str; 15] = [
        SERVICE_SKIPPED,
        ADD_SERVICE_FINALIZER_ERROR,
        ENSURE_LB,
        ENSURED_LB,
        ENSURE_LB_ERROR,
        NOT_AS_ASKED,
        ENSURE_FIP,
        UPDATE_PROVIDER,
        RELEASE_LB,
        RELEASE_LB_ERROR,
        SKIP_LISTENER,
        LOAD_BALANCER_MISSING,
        LISTENER_MISSING,
        POOL_MISSING,
        MEMBER_MISSING,
    ];
}

/// Reasons of the Events on an Ingress; new.
pub mod ingress_reasons {
    /// The Ingress did not get its finalizer.
    pub const ADD_INGRESS_FINALIZER_ERROR: &str = "KuryrAddIngressFinalizerError";
    /// Nothing of it is served.
    pub const INGRESS_SKIPPED: &str = "KuryrIngressSkipped";
    /// A rule is left out.
    pub const SKIP_ROUTE: &str = "KuryrSkipRoute";
    /// Another Ingress, or another rule, has what it asks for.
    pub const ROUTE_CONFLICT: &str = "KuryrRouteConflict";
    /// What a rule leads to has no one to answer.
    pub const BACKEND_MISSING: &str = "KuryrBackendMissing";
    /// It is served over HTTP alone.
    pub const TLS_NOT_SERVED: &str = "KuryrTlsNotServed";
    /// It is served over HTTPS, and not with the certificate that its Secret has, or with one of another name.
    pub const CERTIFICATE_NOT_AS_ASKED: &str = "KuryrCertificateNotAsAsked";
    /// Requests over HTTP are not sent to HTTPS.
    pub const SKIP_REDIRECT: &str = "KuryrSkipRedirect";
    /// It is served, and not by the router that it asks for, or without its class.
    pub const ROUTER_NOT_AS_ASKED: &str = "KuryrRouterNotAsAsked";

    /// All of them.
    pub const ALL: [&str; 9] = [
        ADD_INGRESS_FINALIZER_ERROR,
        INGRESS_SKIPPED,
        SKIP_ROUTE,
        ROUTE_CONFLICT,
        BACKEND_MISSING,
        TLS_NOT_SERVED,
        CERTIFICATE_NOT_AS_ASKED,
        SKIP_REDIRECT,
        ROUTER_NOT_AS_ASKED,
    ];
}

/// Types of the conditions of a Service.
pub mod service_conditions {
    /// Some of its ports are not served. The name is that of Kubernetes (`LoadBalancerPortsError`).
    pub const PORTS_ERROR: &str = "LoadBalancerPortsError";
    /// Its load balancer is not tried: it contradicts itself, or openstack-writer refuses it; new.
    pub const REFUSED: &str = "kuryr.openstack.org/LoadBalancerRefused";
}

/// Types of the conditions of a KuryrLoadBalancer; new.
pub mod conditions {
    /// Made, ACTIVE, and as the spec says.
    pub const READY: &str = "Ready";
    /// This generation of the spec has been applied.
    pub const SYNCED: &str = "Synced";
    /// It serves badly or not at all, or the repair budget is spent.
    pub const DEGRADED: &str = "Degraded";
    /// A quota of OpenStack is in the way.
    pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";
    /// Something that was asked for cannot be had; the message names it.
    pub const UNSUPPORTED: &str = "Unsupported";
    /// Something of someone else is in the way, or what was asked for contradicts itself.
    pub const CONFLICT: &str = "Conflict";
    /// There are more endpoints than an object can hold.
    pub const TOO_LARGE: &str = "TooLarge";
    /// The mass-change guard holds a removal.
    pub const HELD: &str = "Held";
    /// It is being removed.
    pub const DELETING: &str = "Deleting";

    /// All of them, in the order in which they are written.
    pub const ALL: [&str; 9] =
        [READY, SYNCED, DEGRADED, QUOTA_EXCEEDED, UNSUPPORTED, CONFLICT, TOO_LARGE, HELD, DELETING];
}

/// Types of the conditions of a KuryrPort; new. Those of [`conditions`] mean the same there.
pub mod port_conditions {
    /// The one that the node writes: True once the interface is in the Pod, with the ID of its container as the message; False once
    /// the runtime has asked for it to be removed.
    pub const PLUGGED: &str = "Plugged";
}
