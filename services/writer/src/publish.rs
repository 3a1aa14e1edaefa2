//! Publishes the leader as the only endpoint of a Service without a selector, so that one address in front of all replicas leads to
//! the one that takes streams.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use gimbal_kubernetes_client::{ApiError, Cluster};
use gimbal_kubernetes_objects::{
    Endpoint, EndpointConditions, EndpointPort, EndpointSlice, Meta, Object as _, Service, keys,
};
use gimbal_lease::Leadership;
use gimbal_model::{AddressRules, is_label};
use tokio::sync::watch;

use crate::metrics::Metrics;

#[cfg(test)]
mod tests;

/// Value of the label `endpointslice.kubernetes.io/managed-by`: Kubernetes' own controllers leave such slices alone, and it is not the
/// mark of what is mirrored.
const MANAGER: &str = "gimbal-writer-leader";
/// How often to look whether the slice is still as it was written.
const LOOK: Duration = Duration::from_secs(10);
/// Pauses after a failure: the next one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// `--publish`: the Service whose endpoint the leader is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedService {
    namespace: Arc<str>,
    name: Arc<str>,
}

impl FromStr for PublishedService {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((namespace, name)) if is_label(namespace) && is_label(name) => {
                Ok(Self { namespace: namespace.into(), name: name.into() })
            }
            _ => Err("write it as NAMESPACE/NAME, the names of a namespace and of a Service in it"),
        }
    }
}

/// `--advertise`: where other machines reach this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advertised {
    address: IpAddr,
    /// Unset: that of `--listen`.
    port: Option<u16>,
}

impl FromStr for Advertised {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = text.parse::<SocketAddr>().map(|at| Self { address: at.ip(), port: Some(at.port()) });
        // The address of a pod comes without a port, and an IPv6 one without brackets.
        let read = read.or_else(|_| text.parse().map(|address| Self { address, port: None }));
        let read = read.map_err(|_| "write it as IP:PORT, or as IP for the port of --listen".to_owned())?;
        if read.port == Some(0) {
            return Err("no client can dial port 0".to_owned());
        }
        AddressRules::default()
            .check(read.address)
            .map_err(|refusal| format!("{} {refusal}: no Service can lead there", read.address))?;
        Ok(read)
    }
}

impl Advertised {
    /// Returns the address with the port of `listen`, unless it has one of its own.
    pub fn at(self, listen: SocketAddr) -> SocketAddr {
        SocketAddr::new(self.address, self.port.unwrap_or_else(|| listen.port()))
    }
}

/// Why the leader cannot be published.
#[derive(Debug, thiserror::Error)]
enum PublishError {
    #[error("there is no such Service: create it, without a selector")]
    NoService,
    #[error("the Service has a selector, so that every replica is its endpoint: remove the selector")]
    HasSelector,
    #[error("the Service is published for a backend: name one of your own")]
    Mirrored,
    #[error("the EndpointSlice {0} is not ours: its label {label} is not {MANAGER}; rename it, or publish in another Service", label = keys::SLICE_MANAGED_BY)]
    NotOurs(Arc<str>),
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// What has to be done about the slice.
#[derive(Debug, PartialEq)]
enum SliceWrite {
    None,
    Create(EndpointSlice),
    Replace(EndpointSlice),
    /// The family of addresses of a slice cannot be changed.
    Delete(Meta),
}

/// Returns the slice by which `address` is the only endpoint of the Service.
fn leader_slice(service: &Service, address: SocketAddr) -> EndpointSlice {
    let meta = &service.metadata;
    let labels = [(keys::SERVICE_NAME, &*meta.name), (keys::SLICE_MANAGED_BY, MANAGER)];
    let ports =
        service.spec.ports.iter().filter(|port| port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP"));
    EndpointSlice {
        metadata: Meta {
            name: format!("{}-leader", meta.name).into(),
            namespace: meta.namespace.clone(),
            labels: labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
            ..Meta::default()
        },
        address_type: if address.is_ipv4() { "IPv4" } else { "IPv6" }.into(),
        endpoints: vec![Endpoint {
            addresses: vec![address.ip().to_string().into()],
            conditions: EndpointConditions { ready: Some(true), ..EndpointConditions::default() },
            ..Endpoint::default()
        }],
        // A slice's port belongs to the Service's port of the same name.
        ports: ports
            .map(|port| EndpointPort {
                name: Some(port.name.clone().unwrap_or_default()),
                port: Some(address.port().into()),
                protocol: Some("TCP".into()),
                app_protocol: port.app_protocol.clone(),
            })
            .collect(),
    }
}

/// Decides what to do about the slice that is there.
fn decide(service: &Service, found: Option<EndpointSlice>, address: SocketAddr) -> Result<SliceWrite, PublishError> {
    if !service.spec.selector.is_empty() {
        return Err(PublishError::HasSelector);
    }
    if service.metadata.labels.contains_key(keys::MANAGED_BY) {
        return Err(PublishError::Mirrored);
    }
    let wanted = leader_slice(service, address);
    let Some(found) = found else { return Ok(SliceWrite::Create(wanted)) };
    if found.metadata.labels.get(keys::SLICE_MANAGED_BY).map(|manager| &**manager) != Some(MANAGER) {
        return Err(PublishError::NotOurs(found.metadata.name));
    }
    if found.address_type != wanted.address_type {
        return Ok(SliceWrite::Delete(found.metadata));
    }
    let is_labelled = wanted.metadata.labels.iter().all(|(key, value)| found.metadata.labels.get(key) == Some(value));
    if is_labelled && found.endpoints == wanted.endpoints && found.ports == wanted.ports {
        return Ok(SliceWrite::None);
    }
    let mut labels = found.metadata.labels.clone();
    labels.extend(wanted.metadata.labels);
    // With the version that was read: a leader of later would not be overwritten by a request that comes late.
    Ok(SliceWrite::Replace(EndpointSlice { metadata: Meta { labels, ..found.metadata }, ..wanted }))
}

/// Keeps the slice as it has to be while this process leads.
pub struct LeaderPublisher {
    /// Sends writes only while this process leads.
    pub cluster: Cluster,
    /// Whether it leads.
    pub leadership: watch::Receiver<Leadership>,
    /// The Service.
    pub service: PublishedService,
    /// Where the streams are taken.
    pub address: SocketAddr,
    /// Shows whether it is published.
    pub metrics: Metrics,
}

impl LeaderPublisher {
    /// Publishes this process whenever it leads. Ends with the process.
    pub async fn run(mut self) {
        let mut failures = 0;
        let mut told = None;
        while let Ok(epoch) = self.leadership.wait_for(|now| now.epoch().is_some()).await.map(|now| now.epoch()) {
            let published = self.publish().await;
            // What an API server that is away had stays as it was.
            if !matches!(published, Err(PublishError::Api(_))) {
                self.metrics.published(published.is_ok());
            }
            let pause = match published {
                Ok(()) => {
                    (failures, told) = (0, None);
                    LOOK
                }
                Err(error) => {
                    let words = error.to_string();
                    if told.as_ref() != Some(&words) {
                        let PublishedService { namespace, name } = &self.service;
                        tracing::warn!(service = %format_args!("{namespace}/{name}"), error = words, "cannot publish this leader");
                        told = Some(words);
                    }
                    failures = (failures + 1).min(16);
                    FIRST_PAUSE.saturating_mul(1 << (failures - 1)).min(LONGEST_PAUSE)
                }
            };
            let other = self.leadership.wait_for(|now| now.epoch() != epoch);
            match tokio::time::timeout(pause, other).await.map(|changed| changed.is_ok()) {
                Ok(true) => self.metrics.published(false),
                // Without an election it leads for ever.
                Ok(false) => tokio::time::sleep(pause).await,
                Err(_) => {}
            }
        }
    }

    async fn publish(&self) -> Result<(), PublishError> {
        let PublishedService { namespace, name } = &self.service;
        let service = self.cluster.get::<Service>(namespace, name).await;
        let service = service.map_err(|error| match error {
            ApiError::NotFound { .. } => PublishError::NoService,
            other => PublishError::Api(other),
        })?;
        // What is deleted because of its family is created in the next round.
        for _ in 0..2 {
            let found = match self.cluster.get::<EndpointSlice>(namespace, &format!("{name}-leader")).await {
                Ok(found) => Some(found),
                Err(ApiError::NotFound { .. }) => None,
                Err(error) => return Err(error.into()),
            };
            match decide(&service, found, self.address)? {
                SliceWrite::None => return Ok(()),
                SliceWrite::Create(slice) => {
                    self.cluster.create(&slice).await?;
                }
                SliceWrite::Replace(slice) => {
                    self.cluster.replace(&slice).await?;
                }
                SliceWrite::Delete(meta) => {
                    let Meta { namespace, name, uid, resource_version, .. } = &meta;
                    self.cluster.delete(EndpointSlice::KIND, namespace, name, uid, resource_version).await?;
                    continue;
                }
            }
            tracing::info!(service = %format_args!("{namespace}/{name}"), address = %self.address, "this leader is published");
            return Ok(());
        }
        Ok(())
    }
}
