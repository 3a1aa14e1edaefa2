//! The content of the source, and its changes.

use anyhow::Context as _;
use gimbal_kubernetes_client::{ApiError, Cluster};
use gimbal_kubernetes_objects::{EndpointSlice, Object, Service};

use crate::objects::{Offer, in_zone, named, not_ready, ready, terminating};

pub const SHOP: &str = "gimbal-demo-shop";
pub const MEDIA: &str = "gimbal-demo-media";
/// A namespace that exists in the source from the start, and in the Gimbal cluster only later.
pub const LATE: &str = "gimbal-demo-late";

const LONG: &str = "a-service-whose-name-is-as-long-as-kubernetes-lets-it-be-63-chr";

/// Returns a dozen Services of various forms.
pub fn offers() -> Vec<Offer> {
    let http = ("http", 80, 8080, "TCP");
    let web = vec![
        in_zone(ready("10.20.1.1"), "zone-a"),
        in_zone(ready("10.20.1.2"), "zone-b"),
        in_zone(ready("10.20.1.3"), "zone-c"),
    ];
    let many = (0..250).map(|n| ready(&format!("10.21.{}.{}", n / 250, n % 250 + 1))).collect::<Vec<_>>();
    let mut crowd = Offer::new(MEDIA, "crowd", &[http]);
    for part in many.chunks(100) {
        crowd = crowd.slice("IPv4", part.to_vec());
    }
    vec![
        Offer::new(SHOP, "web", &[http, ("https", 443, 8443, "TCP"), ("metrics", 9090, 9090, "TCP")])
            .slice("IPv4", web),
        Offer::new(SHOP, "cart", &[http]).slice("IPv4", vec![ready("10.20.2.1"), terminating("10.20.2.2")]),
        Offer::new(SHOP, "search", &[http]).slice("IPv4", vec![ready("10.20.3.1"), not_ready("10.20.3.2")]),
        Offer::new(SHOP, "payment", &[("grpc", 443, 9443, "TCP")])
            .app_protocol("kubernetes.io/h2c")
            .slice("IPv4", vec![ready("10.20.4.1")]),
        Offer::new(SHOP, "db", &[("postgres", 5432, 5432, "TCP")])
            .headless()
            .slice("IPv4", vec![named(ready("10.20.5.1"), "db-0"), named(ready("10.20.5.2"), "db-1")]),
        Offer::new(SHOP, "dns", &[("dns", 53, 5353, "UDP"), ("dns-tcp", 53, 5353, "TCP")])
            .slice("IPv4", vec![ready("10.20.6.1"), ready("10.20.6.2")]),
        Offer::new(SHOP, "soon", &[http]),
        Offer::new(SHOP, LONG, &[http]).slice("IPv4", vec![ready("10.20.7.1")]),
        Offer::new(MEDIA, "dual", &[http])
            .slice("IPv4", vec![ready("10.21.200.1"), ready("10.21.200.2")])
            .slice("IPv6", vec![ready("fd00:20::1"), ready("fd00:20::2")]),
        Offer::new(MEDIA, "stream", &[("rtp", 5004, 5004, "UDP")]).slice("IPv4", vec![ready("10.21.201.1")]),
        Offer::new(MEDIA, "signal", &[("sctp", 3868, 3868, "SCTP")]).slice("IPv4", vec![ready("10.21.202.1")]),
        crowd,
    ]
}

/// Returns a Service that must not be published: it has no endpoints of its own.
pub fn elsewhere() -> Offer {
    let mut offer = Offer::new(SHOP, "elsewhere", &[]);
    offer.service.spec.type_ = Some("ExternalName".into());
    offer.service.spec.external_name = Some("elsewhere.example".into());
    offer
}

/// A source that can be changed.
pub struct Fill<'a>(pub &'a Cluster);

impl Fill<'_> {
    pub async fn put(&self, offer: &Offer) -> anyhow::Result<()> {
        self.0.create(&offer.service).await.map(drop).with_context(|| place(&offer.service))?;
        for slice in &offer.slices {
            self.0.create(slice).await.map(drop).with_context(|| place(slice))?;
        }
        Ok(())
    }

    /// Removes a Service and its slices.
    pub async fn remove(&self, offer: &Offer) -> anyhow::Result<()> {
        for slice in &offer.slices {
            self.delete(slice).await?;
        }
        self.delete(&offer.service).await
    }

    pub async fn change_service(&self, offer: &Offer, change: impl Fn(&mut Service)) -> anyhow::Result<()> {
        self.change(&offer.service, change).await
    }

    /// Changes the first slice.
    pub async fn change_slice(&self, offer: &Offer, change: impl Fn(&mut EndpointSlice)) -> anyhow::Result<()> {
        self.change(offer.slices.first().context("no slice to change")?, change).await
    }

    async fn change<T: Object>(&self, object: &T, change: impl Fn(&mut T)) -> anyhow::Result<()> {
        let meta = object.meta();
        loop {
            let mut current: T = self.0.get(&meta.namespace, &meta.name).await.with_context(|| place(object))?;
            change(&mut current);
            match self.0.replace(&current).await {
                Err(ApiError::Conflict { .. }) => {}
                other => return other.map(drop).with_context(|| place(object)),
            }
        }
    }

    async fn delete<T: Object>(&self, object: &T) -> anyhow::Result<()> {
        let meta = object.meta();
        match self.0.delete(T::KIND, &meta.namespace, &meta.name, "", "").await {
            Err(ApiError::NotFound { .. }) => Ok(()),
            other => other.with_context(|| place(object)),
        }
    }
}

fn place<T: Object>(object: &T) -> String {
    format!("{} {}/{}", T::KIND.kind, object.meta().namespace, object.meta().name)
}
