//! Pods, their nodes, and what the nodes say.

use std::collections::BTreeMap;

use gimbal_kuryr_model::Text;
use gimbal_neutron_plan::{Plugged, PodPort, PodPortEnd, PodPortWish, PortPlan, PortPoolKey};
use gimbal_neutron_sim::NeutronModel;

/// A Pod, and its KuryrPort.
#[derive(Debug, Clone)]
pub struct Pod {
    pub wish: PodPortWish,
    pub is_over: bool,
    /// The row that the status shows.
    pub status: Option<PodPort>,
}

/// What the API server has.
#[derive(Debug, Clone, Default)]
pub struct Kubernetes {
    pub pods: BTreeMap<Text, Pod>,
    /// UIDs of nodes by name.
    pub nodes: BTreeMap<Text, Text>,
    made: u64,
}

impl Kubernetes {
    pub fn add_node(&mut self, name: &str) {
        self.made += 1;
        self.nodes.insert(name.into(), format!("node-uid-{}", self.made).into());
    }

    /// Adds a Pod, and returns its UID.
    pub fn add_pod(&mut self, place: &PortPoolKey) -> Text {
        self.made += 1;
        let pod: Text = format!("pod-uid-{:04}", self.made).into();
        let name = format!("shop/web-{}", self.made).into();
        let wish = PodPortWish {
            pod: pod.clone(),
            name,
            dns_name: None,
            place: place.clone(),
            port: None,
            plugged: Plugged::Unsaid,
        };
        self.pods.insert(pod.clone(), Pod { wish, is_over: false, status: None });
        pod
    }

    /// The node plugs every port that a status names and Neutron has.
    pub fn plug_all(&mut self, neutron: &mut NeutronModel) {
        for pod in self.pods.values_mut().filter(|pod| !pod.is_over && self.nodes.contains_key(&pod.wish.place.node)) {
            if let Some(port) = &pod.status {
                neutron.wire(&port.id);
                pod.wish.plugged = Plugged::Yes;
            }
        }
    }

    /// The node says of a Pod that it is unplugged.
    pub fn unplug(&mut self, pod: &str, neutron: &mut NeutronModel) {
        let Some(pod) = self.pods.get_mut(pod) else { return };
        if let Some(port) = &pod.status {
            neutron.unwire(&port.id);
        }
        pod.wish.plugged = Plugged::No;
    }

    /// Tells a plan everything, and that this is all.
    pub fn tell(&self, plan: &mut PortPlan, known: &mut Vec<Text>, nodes: &mut Vec<Text>, now: std::time::Instant) {
        for name in nodes.drain(..).filter(|name| !self.nodes.contains_key(name)) {
            plan.remove_node(&name, now);
        }
        for (name, uid) in &self.nodes {
            plan.set_node(name.clone(), uid.clone(), now);
        }
        *nodes = self.nodes.keys().cloned().collect();
        for pod in known.drain(..).filter(|pod| !self.pods.contains_key(pod)) {
            plan.forget(&pod, now);
        }
        for (uid, pod) in &self.pods {
            if pod.is_over {
                let node = Some(pod.wish.place.node.clone());
                plan.release(PodPortEnd { pod: uid.clone(), node, plugged: pod.wish.plugged }, now);
            } else {
                plan.want(pod.wish.clone(), now);
            }
        }
        *known = self.pods.keys().cloned().collect();
        plan.set_complete(true);
    }
}
