//! What is the same for all discoverers.

/// When a node asks the registry for an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PullPolicy {
    /// If it has none.
    #[default]
    IfNotPresent,
    /// Each time.
    Always,
    /// Not at all.
    Never,
}

impl PullPolicy {
    /// Returns the word of the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::IfNotPresent => "IfNotPresent",
            Self::Always => "Always",
            Self::Never => "Never",
        }
    }
}

/// Traces that discoverers send.
#[derive(Debug, Clone, PartialEq)]
pub struct DiscovererTraces {
    /// URL of the collector, with its port.
    pub endpoint: String,
    /// Share of the changes that are traced.
    pub ratio: f64,
}

/// What is the same for all discoverers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OperatorSettings {
    /// The namespace that they run in, with their Secrets: that of the operator.
    pub namespace: String,
    /// URLs of the writer, each with its port.
    pub writer: Vec<String>,
    /// Image of gimbal-kubernetes-discoverer.
    pub kubernetes_image: String,
    /// Image of gimbal-openstack-discoverer.
    pub openstack_image: String,
    /// When nodes ask for these.
    pub pull_policy: PullPolicy,
    /// Secrets with credentials of their registry.
    pub pull_secrets: Vec<String>,
    /// What an identity is made of, before the name of its backend. No other is signed: whoever may make a Backend could ask for that
    /// of an administrator.
    pub identity_prefix: String,
    /// The Secret of the authority. It is no source.
    pub authority_secret: String,
    /// Whether each discoverer gets a NetworkPolicy.
    pub network_policies: bool,
    /// The namespace from which metrics are asked for.
    pub monitoring_namespace: String,
    /// Ports of API servers.
    pub api_server_ports: Vec<u16>,
    /// Ports of Keystone, Octavia and Neutron.
    pub openstack_ports: Vec<u16>,
    /// Traces of changes, if they are sent.
    pub traces: Option<DiscovererTraces>,
}

impl OperatorSettings {
    /// Returns the ports of the writer's URLs, each once.
    #[must_use]
    pub fn writer_ports(&self) -> Vec<u16> {
        let mut ports = Vec::new();
        for port in self.writer.iter().filter_map(|url| port_of(url)) {
            if !ports.contains(&port) {
                ports.push(port);
            }
        }
        ports
    }
}

/// Returns the port of a URL that ends with it.
pub(crate) fn port_of(url: &str) -> Option<u16> {
    url.trim_end_matches('/').rsplit_once(':')?.1.parse().ok()
}
