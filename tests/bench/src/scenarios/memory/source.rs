//! A large source as Kubernetes' own controllers fill it: most of its bytes are in fields that Gimbal does not read.

use std::fmt;
use std::net::Ipv4Addr;

use gimbal_tests::{Scene, svc};
use serde_json::{Value, json};

use crate::Context;
use crate::fill::{self, Objects, SLICE};

/// Numbers of Services, and the endpoints of each, at scale 1: most Services have one slice, some are large.
const LOTS: [(usize, u32); 3] = [(10_000, 46), (440, 85), (10, 460)];

/// The number of Services of each lot, and the endpoints of each Service.
pub struct Size([(usize, u32); 3]);

/// A Service by its number, and where its addresses begin.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Number among all Services.
    pub number: usize,
    /// Number of endpoints.
    pub endpoints: u32,
    first: u32,
}

impl Size {
    pub fn new(context: &Context) -> Self {
        Self(LOTS.map(|(services, endpoints)| (context.scaled(services), endpoints)))
    }

    /// Returns all Services.
    pub fn places(&self) -> Vec<Place> {
        let mut first = 1;
        let endpoints = self.0.iter().flat_map(|(services, endpoints)| std::iter::repeat_n(*endpoints, *services));
        let place = |(number, endpoints)| {
            first += endpoints;
            Place { number, endpoints, first: first - endpoints }
        };
        endpoints.enumerate().map(place).collect()
    }

    /// Creates the namespaces on both sides. Returns the objects to create in the source.
    pub async fn namespaces(&self, scene: &Scene) -> anyhow::Result<impl Iterator<Item = Objects> + use<>> {
        fill::namespaces(&scene.source).await?;
        fill::namespaces(&scene.gimbal).await?;
        Ok(self.places().into_iter().map(Place::objects))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = self.places();
        let addresses: u32 = places.iter().map(|place| place.endpoints).sum();
        write!(f, "{} Services with {addresses} addresses", places.len())
    }
}

impl Place {
    pub fn namespace(self) -> String {
        fill::namespace(self.number)
    }

    pub fn name(self) -> String {
        format!("service-{:05}", self.number)
    }

    /// Returns the path of its slices' collection.
    pub fn slices(self) -> String {
        format!("/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices", self.namespace())
    }

    /// Returns the path of its Service's collection.
    pub fn services(self) -> String {
        format!("/api/v1/namespaces/{}/services", self.namespace())
    }

    /// Returns the number of its slices.
    pub fn parts(self) -> u32 {
        self.endpoints.div_ceil(SLICE)
    }

    pub fn slice_name(self, part: u32) -> String {
        format!("{}-{part:05x}", self.name())
    }

    pub fn objects(self) -> Objects {
        let mut service = svc(&self.namespace(), &self.name(), &[("http", 80)]);
        service["metadata"]["labels"] = json!({"app": self.name(), "tier": "web", "release": "stable"});
        // Headless, because a Service network has fewer addresses than there are Services.
        service["spec"]["clusterIP"] = json!("None");
        let slices = (0..self.parts()).map(|part| (self.slices(), self.slice(part, 0)));
        std::iter::once((self.services(), service)).chain(slices).collect()
    }

    /// Returns a slice whose Pods were replaced `replaced` times, each time with other addresses and UIDs.
    pub fn slice(self, part: u32, replaced: u32) -> Value {
        let count = SLICE.min(self.endpoints - part * SLICE);
        let first = self.first + part * SLICE;
        let endpoints: Vec<Value> = (first..first + count).map(|host| self.endpoint(host, replaced)).collect();
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "namespace": self.namespace(), "name": self.slice_name(part),
                "labels": {
                    "kubernetes.io/service-name": self.name(), "app": self.name(),
                    "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                },
                "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"},
            },
            "addressType": "IPv4", "endpoints": endpoints,
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        })
    }

    /// Returns an endpoint. No two have the same address: replacements use the sixteen parts of 10.0.0.0/8 in turn.
    fn endpoint(self, host: u32, replaced: u32) -> Value {
        let address = 0x0a00_0000 + (host + replaced % 16 * (1 << 20));
        json!({
            "addresses": [Ipv4Addr::from(address).to_string()],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": format!("node-{:04}.zone-{}.example", host % 1000, host % 3),
            "zone": format!("zone-{}", host % 3),
            "targetRef": {
                "kind": "Pod", "namespace": self.namespace(), "name": format!("{}-7d9c5b8f6d-{host:05x}", self.name()),
                "uid": format!("3f2a9c00-7b1e-4c55-9a3d-{address:012x}"),
            },
        })
    }
}
