//! What is left out of a router, or of an Ingress.

use gimbal_kuryr_crd::names::{conditions, ingress_reasons};
use gimbal_kuryr_model::Text;
use gimbal_model::SourceKey;

use super::CertificateProblem;

/// Something of an Ingress that is left out or other than asked for, and why. Everything else of it is served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IngressProblem {
    /// Its annotation is left out.
    #[error(
        "annotation kuryr.openstack.org/l7-router={value:?} is left out, and the router {router} serves it: {problem}"
    )]
    RouterAnnotation {
        /// Its value, cut to 64 characters.
        value: Text,
        /// The shared router, or the one that it had before.
        router: SourceKey,
        /// The reason.
        problem: RouterAnnotationProblem,
    },
    /// It asked for a router of its own, and others have that too.
    #[error("it shares the router {router}: another Ingress asked for that as the one of a group")]
    NotAlone {
        /// The router.
        router: SourceKey,
    },
    /// The router that it asks for is somebody's.
    #[error(
        "the KuryrL7Router {router} that it asks for was made by somebody, and serves no Ingress: ask for one of another name"
    )]
    RouterTaken {
        /// The router.
        router: SourceKey,
    },
    /// Its class is gone.
    #[error(
        "it is served although there is no {}: give it another class, or delete it, to let it go",
        ClassName(.class)
    )]
    NoClass {
        /// The class; empty for the default one.
        class: Text,
    },
    /// A host is left out.
    #[error("host {host:?} is left out: {problem}")]
    Host {
        /// The host, cut to 64 characters.
        host: Text,
        /// The reason.
        problem: HostProblem,
    },
    /// A rule without paths.
    #[error("a rule for {} has no paths: its requests go to the default backend", HostName(.host))]
    NoPaths {
        /// Its host; unset: any.
        host: Option<Text>,
    },
    /// A path is left out.
    #[error("path {path:?} of {} is left out: {problem}", HostName(.host))]
    Path {
        /// Its host; unset: any.
        host: Option<Text>,
        /// The path, cut to 64 characters.
        path: Text,
        /// The reason.
        problem: PathProblem,
    },
    /// An older rule has the same host and path.
    #[error("{} is left out: Ingress {by} has it, and is older", RoutePlace(.host, .path))]
    Taken {
        /// Its host; unset: any.
        host: Option<Text>,
        /// The path; unset: any.
        path: Option<Text>,
        /// The Ingress that has it.
        by: SourceKey,
    },
    /// Another rule of it has the same host and path.
    #[error("{} is left out: an earlier rule of this Ingress has it", RoutePlace(.host, .path))]
    Twice {
        /// Its host; unset: any.
        host: Option<Text>,
        /// The path; unset: any.
        path: Option<Text>,
    },
    /// Its default backend serves nothing but its own hosts.
    #[error("its default backend gets no requests but those for its own hosts: that of Ingress {by} has the others")]
    DefaultTaken {
        /// The Ingress that has them.
        by: SourceKey,
    },
    /// A backend is something else than a Service.
    #[error("{place} is answered with 503: its backend is the {kind} {name:?}, and only Services are served")]
    Resource {
        /// What leads there.
        place: Text,
        /// Kind of the object, cut to 64 characters.
        kind: Text,
        /// Its name, cut to 64 characters.
        name: Text,
    },
    /// A backend says nothing.
    #[error("{place} is answered with 503: its backend names no Service, or no port of it")]
    NoBackend {
        /// What leads there.
        place: Text,
    },
    /// A Service is not there.
    #[error("there is no Service {service}: what leads there is answered with 503")]
    NoService {
        /// The Service.
        service: SourceKey,
    },
    /// A port is not there.
    #[error("Service {service} has no TCP port {port}: what leads there is answered with 503")]
    NoPort {
        /// The Service.
        service: SourceKey,
        /// Number or name, cut to 64 characters.
        port: Text,
    },
    /// A Service has no endpoints by its type.
    #[error("Service {service} is of type ExternalName and has no endpoints: what leads there is answered with 503")]
    ExternalName {
        /// The Service.
        service: SourceKey,
    },
    /// Members are nodes, and the port has none there.
    #[error("port {port} of Service {service} has no members: members are nodes, and it has no node port")]
    NoNodePort {
        /// The Service.
        service: SourceKey,
        /// Its port.
        port: u16,
    },
    /// TLS is asked for, and the cloud does not have it.
    #[error("openstack-writer does not serve certificates: HTTP alone for {hosts}")]
    TlsNotServed {
        /// The hosts, cut to 64 characters.
        hosts: Text,
    },
    /// There is no certificate for these hosts.
    #[error("an entry of tls names no Secret: HTTP alone for {hosts}")]
    NoSecretName {
        /// The hosts, cut to 64 characters.
        hosts: Text,
    },
    /// A certificate is not served.
    #[error("the certificate in Secret {secret} is not served, and its hosts over HTTP alone: {problem}")]
    NoCertificate {
        /// The Secret.
        secret: SourceKey,
        /// The reason.
        problem: SecretProblem,
    },
    /// The certificate that was served before still is.
    #[error("the certificate that Secret {secret} had before is still served: {problem}")]
    CertificateKept {
        /// The Secret.
        secret: SourceKey,
        /// The reason.
        problem: SecretProblem,
    },
    /// Clients of another Ingress would get its certificate.
    #[error(
        "the certificate in Secret {secret} is not served, and its hosts over HTTP alone: it is also for host {host:?}, \
         which Ingress {by} of another namespace has, and is older"
    )]
    CertificateTaken {
        /// The Secret.
        secret: SourceKey,
        /// The first such host.
        host: Text,
        /// The Ingress that has it.
        by: SourceKey,
    },
    /// Clients will refuse the certificate.
    #[error("the certificate in Secret {secret} is not for host {host:?}: clients will refuse it there")]
    NotInCertificate {
        /// The Secret.
        secret: SourceKey,
        /// The host.
        host: Text,
    },
    /// Its annotation is left out.
    #[error("annotation kuryr.openstack.org/redirect-http={value:?} is left out: it is neither \"true\" nor \"false\"")]
    RedirectAnnotation {
        /// Its value, cut to 64 characters.
        value: Text,
    },
    /// Requests for a host stay with HTTP.
    #[error("requests for {} are not sent to HTTPS: {problem}", HostName(.host))]
    NotRedirected {
        /// The host; unset: any.
        host: Option<Text>,
        /// The reason.
        problem: RedirectProblem,
    },
    /// There is no room for it.
    #[error("it is left out: the routes of router {router} take up to {most} bytes, which its namespaces share, and older Ingresses of this one come first", most = super::shorten::MOST_ROUTES)]
    NoRoom {
        /// The router.
        router: SourceKey,
    },
    /// The cloud does not serve Ingresses.
    #[error("enable_ingress of openstack-writer is off, so it is not served")]
    NotEnabled,
    /// The provider cannot.
    #[error("provider {provider} of Octavia has no L7 policies, so it is not served")]
    NoPolicies {
        /// The provider.
        provider: Text,
    },
}

/// Why a host is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostProblem {
    /// It is something else.
    #[error("it is not a host name")]
    NotAName,
    /// Octavia cannot compare it.
    #[error("Octavia has at most 255 bytes for the expression that it makes")]
    TooLong,
}

/// Why a path is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathProblem {
    /// It is not a path.
    #[error("it does not begin with a slash")]
    NoSlash,
    /// Octavia cannot compare it.
    #[error(
        "it has a character that Octavia cannot compare: a blank, a quotation mark, one of # & < >, or one beyond ASCII"
    )]
    Characters,
    /// Octavia cannot compare it.
    #[error("Octavia has at most 255 bytes for the expression that it makes")]
    TooLong,
    /// There is no such way to compare it.
    #[error("its pathType is not Exact, Prefix or ImplementationSpecific")]
    Type,
}

/// Why the content of a Secret is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretProblem {
    /// It is not there, or of another type.
    #[error("there is no Secret of that name with type kubernetes.io/tls")]
    Missing,
    /// Whether it is there is not known.
    #[error("Secrets cannot be read")]
    Unreadable,
    /// Clients of another Ingress would get it.
    #[error("the new one is also for a host that an older Ingress of another namespace serves with a certificate")]
    OtherHosts,
    /// It is there.
    #[error("{0}")]
    Invalid(CertificateProblem),
}

/// Why HTTP requests for a host are not sent to HTTPS.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RedirectProblem {
    /// Where to is not known.
    #[error("Octavia can do that for a host without a wildcard alone")]
    NotOneHost,
    /// There is nothing there.
    #[error("no certificate for it is served")]
    NoCertificate,
    /// haproxy redirects before it does anything else.
    #[error("Ingress {by} has a path there that is served over HTTP and would be redirected with it")]
    HttpPath {
        /// The Ingress.
        by: SourceKey,
    },
}

/// Why the annotation that chooses a router is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RouterAnnotationProblem {
    /// It is something else.
    #[error("it is neither own nor group:NAME")]
    Unreadable,
    /// No object can have that name.
    #[error("the name of a group has lower-case letters, digits, dots and hyphens, and no namespace")]
    GroupName,
}

impl IngressProblem {
    /// Returns the type of the condition of the router that says so.
    #[must_use]
    pub fn condition(&self) -> &'static str {
        match self {
            Self::Taken { .. }
            | Self::Twice { .. }
            | Self::DefaultTaken { .. }
            | Self::NotAlone { .. }
            | Self::RouterTaken { .. }
            | Self::CertificateTaken { .. } => conditions::CONFLICT,
            Self::NoClass { .. } | Self::CertificateKept { .. } => conditions::HELD,
            Self::NoRoom { .. } => conditions::TOO_LARGE,
            _ => conditions::UNSUPPORTED,
        }
    }

    /// Returns the reason of that condition.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::RouterAnnotation { .. } | Self::RedirectAnnotation { .. } => "InvalidAnnotation",
            Self::NotAlone { .. } => "SharedRouter",
            Self::RouterTaken { .. } => "RouterTaken",
            Self::NoClass { .. } => "NoIngressClass",
            Self::Host { .. } => "InvalidHost",
            Self::NoPaths { .. } => "NoPaths",
            Self::Path { .. } => "InvalidPath",
            Self::Taken { .. } | Self::Twice { .. } => "RouteTaken",
            Self::DefaultTaken { .. } => "DefaultTaken",
            Self::Resource { .. } => "ResourceBackend",
            Self::NoBackend { .. } => "NoBackend",
            Self::NoService { .. } => "NoService",
            Self::NoPort { .. } => "NoPort",
            Self::ExternalName { .. } => "ExternalName",
            Self::NoNodePort { .. } => "NoNodePort",
            Self::TlsNotServed { .. } => "TlsNotServed",
            Self::NoSecretName { .. } => "NoSecretName",
            Self::NoCertificate { problem, .. } => problem.reason(),
            Self::CertificateKept { .. } => "CertificateKept",
            Self::CertificateTaken { .. } => "CertificateTaken",
            Self::NotInCertificate { .. } => "NotInCertificate",
            Self::NotRedirected { .. } => "NotRedirected",
            Self::NoRoom { .. } => "TooManyRoutes",
            Self::NotEnabled => "NotEnabled",
            Self::NoPolicies { .. } => "NoPolicies",
        }
    }

    /// Returns the reason of the Event on the Ingress.
    #[must_use]
    pub fn event(&self) -> &'static str {
        match self {
            Self::TlsNotServed { .. }
            | Self::NoSecretName { .. }
            | Self::NoCertificate { .. }
            | Self::CertificateTaken { .. } => ingress_reasons::TLS_NOT_SERVED,
            Self::CertificateKept { .. } | Self::NotInCertificate { .. } => ingress_reasons::CERTIFICATE_NOT_AS_ASKED,
            Self::RedirectAnnotation { .. } | Self::NotRedirected { .. } => ingress_reasons::SKIP_REDIRECT,
            Self::NotEnabled | Self::NoPolicies { .. } | Self::NoRoom { .. } | Self::RouterTaken { .. } => {
                ingress_reasons::INGRESS_SKIPPED
            }
            Self::NoService { .. }
            | Self::NoPort { .. }
            | Self::ExternalName { .. }
            | Self::NoNodePort { .. }
            | Self::Resource { .. }
            | Self::NoBackend { .. } => ingress_reasons::BACKEND_MISSING,
            Self::Taken { .. } | Self::Twice { .. } | Self::DefaultTaken { .. } => ingress_reasons::ROUTE_CONFLICT,
            Self::Host { .. } | Self::NoPaths { .. } | Self::Path { .. } => ingress_reasons::SKIP_ROUTE,
            Self::RouterAnnotation { .. } | Self::NotAlone { .. } | Self::NoClass { .. } => {
                ingress_reasons::ROUTER_NOT_AS_ASKED
            }
        }
    }
}

impl SecretProblem {
    /// Returns the problem in one word.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Missing => "NoSecret",
            Self::Unreadable => "SecretsUnreadable",
            Self::OtherHosts => "CertificateTaken",
            Self::Invalid(_) => "InvalidCertificate",
        }
    }
}

struct ClassName<'a>(&'a Text);

impl std::fmt::Display for ClassName<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            f.write_str("default IngressClass of ours")
        } else {
            write!(f, "IngressClass {:?}", self.0)
        }
    }
}

struct HostName<'a>(&'a Option<Text>);

impl std::fmt::Display for HostName<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(host) => write!(f, "host {host:?}"),
            None => f.write_str("every host"),
        }
    }
}

struct RoutePlace<'a>(&'a Option<Text>, &'a Option<Text>);

impl std::fmt::Display for RoutePlace<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(host, path) = self;
        match path {
            Some(path) => write!(f, "path {path:?} of {}", HostName(host)),
            None => write!(f, "every path of {}", HostName(host)),
        }
    }
}

/// What leads to a backend, for messages.
pub(crate) fn place(host: &Option<Text>, path: &Option<Text>) -> Text {
    RoutePlace(host, path).to_string().into()
}
