//! An API server in memory with the behaviour that matters to a plan: versions, preconditions, defaults, repacked
//! subsets, immutable fields. The server of `gimbal-simulation` depends on the reconciler, which depends on this crate; it has
//! watches and lost answers, which a plan does not meet.

use std::collections::BTreeMap;

use gimbal_kubernetes_objects::{EndpointSlice, Endpoints, IntOrString, Kind, Meta, Object, Service};
use gimbal_plan::{Action, Body, Observed, Plan, ReportOrder};
use serde_json::{Value, json};

#[derive(Clone, Default)]
pub struct Server {
    pub version: u64,
    pub objects: BTreeMap<(&'static str, String), Body>,
    /// The change that an admission webhook makes to every object.
    pub webhook: Option<fn(&mut Body)>,
    /// Packs Endpoints in its own way, with each address in a subset of its own.
    pub repacks: bool,
    pub writes: usize,
}

/// Returns the result of a merge patch: labels and annotations that it does not name stay.
fn patched(before: &Body, patch: &Body) -> Body {
    let mut body = patch.clone();
    let (old, meta) = (before.meta().clone(), meta_mut(&mut body));
    let over = |old: BTreeMap<_, _>, new: &BTreeMap<_, _>| old.into_iter().chain(new.clone()).collect();
    meta.labels = over(old.labels, &meta.labels);
    meta.annotations = over(old.annotations, &meta.annotations);
    body
}

impl Server {
    /// Executes one action. Returns the body of the answer, if it has one.
    pub fn apply(&mut self, action: &Action) -> Result<Option<Body>, String> {
        self.writes += 1;
        self.version += 1;
        let key = (action.kind().plural, action.name().to_string());
        let old = self.objects.get(&key).map(|body| body.meta().clone());
        match action {
            Action::Create(body) => {
                if old.is_some() {
                    return Err(format!("{key:?} already exists"));
                }
                let uid = format!("uid-{}", self.version);
                self.store(body, &uid, None)
            }
            Action::Replace(body) => {
                let old = old.ok_or_else(|| format!("{key:?} not found"))?;
                if (&body.meta().uid, &body.meta().resource_version) != (&old.uid, &old.resource_version) {
                    return Err(format!("{key:?} conflict"));
                }
                let before = self.objects[&key].clone();
                self.store(body, &old.uid, Some(before))
            }
            Action::Patch(body) => {
                let old = old.ok_or_else(|| format!("{key:?} not found"))?;
                if (&body.meta().uid, &body.meta().resource_version) != (&old.uid, &old.resource_version) {
                    return Err(format!("{key:?} conflict"));
                }
                let before = self.objects[&key].clone();
                let patched = patched(&before, body);
                self.store(&patched, &old.uid, Some(before))
            }
            Action::Delete { uid, resource_version, .. } => {
                let old = old.ok_or_else(|| format!("{key:?} not found"))?;
                if (uid, resource_version) != (&old.uid, &old.resource_version) {
                    return Err(format!("{key:?} conflict"));
                }
                self.objects.remove(&key);
                Ok(None)
            }
        }
    }

    /// Executes a whole plan.
    pub fn run(&mut self, plan: &Plan) {
        for action in plan.actions() {
            self.apply(action).unwrap();
        }
    }

    /// Stores an object as if by hand.
    pub fn put(&mut self, mut body: Body) {
        self.version += 1;
        let (version, key) = (self.version, (body.kind().plural, body.name().to_string()));
        let meta = meta_mut(&mut body);
        if meta.uid.is_empty() {
            meta.uid = format!("uid-{version}").into();
        }
        meta.resource_version = version.to_string().into();
        self.objects.insert(key, body);
    }

    /// Edits an object by hand.
    pub fn edit(&mut self, kind: Kind, name: &str, change: impl FnOnce(&mut Value)) {
        let body = &self.objects[&(kind.plural, name.to_string())];
        let mut value = to_json(body);
        change(&mut value);
        let edited = from_json(kind, value);
        self.put(edited);
    }

    /// Returns all objects, read from their wire form.
    pub fn observe(&self) -> Observed {
        let mut observed = Observed::default();
        for body in self.objects.values() {
            observe(&mut observed, body);
        }
        observed
    }

    pub fn slices(&self) -> impl Iterator<Item = &EndpointSlice> {
        self.objects.values().filter_map(|body| match body {
            Body::Slice(slice) => Some(slice),
            _ => None,
        })
    }

    fn store(&mut self, body: &Body, uid: &str, old: Option<Body>) -> Result<Option<Body>, String> {
        let mut body = body.clone();
        default(&mut body);
        if let Some(webhook) = self.webhook {
            webhook(&mut body);
        }
        match (&mut body, &old) {
            (Body::Service(new), Some(Body::Service(old))) => {
                let was = old.spec.type_.as_deref() == Some("ExternalName");
                if !was && old.spec.cluster_ip != new.spec.cluster_ip {
                    return Err("spec.clusterIP: field is immutable".into());
                }
            }
            (Body::Slice(new), Some(Body::Slice(old))) if new.address_type != old.address_type => {
                return Err("addressType: field is immutable".into());
            }
            (Body::Slice(new), _) if new.endpoints.len() > 1000 => return Err("endpoints: too many".into()),
            (Body::Endpoints(new), _) if self.repacks => repack(new),
            _ => {}
        }
        let meta = meta_mut(&mut body);
        meta.uid = uid.into();
        meta.resource_version = self.version.to_string().into();
        // A write that changes nothing gets no new version.
        if let Some(old) = old.filter(|old| strip(old) == strip(&body)) {
            body = old;
        }
        self.objects.insert((body.kind().plural, body.name().to_string()), body.clone());
        Ok(Some(body))
    }
}

fn strip(body: &Body) -> Value {
    let mut value = to_json(body);
    value["metadata"]["resourceVersion"] = Value::Null;
    value
}

fn default(body: &mut Body) {
    match body {
        Body::Service(service) => {
            service.spec.session_affinity.get_or_insert_with(|| "None".into());
            for port in &mut service.spec.ports {
                let number = port.port;
                port.target_port.get_or_insert(IntOrString::Int(number));
            }
        }
        Body::Slice(_) | Body::Endpoints(_) => {}
    }
}

fn repack(endpoints: &mut Endpoints) {
    let mut packed = Vec::new();
    for subset in &endpoints.subsets {
        for address in &subset.addresses {
            packed.push(json!({"addresses": [address], "ports": subset.ports}));
        }
        for address in &subset.not_ready_addresses {
            packed.push(json!({"notReadyAddresses": [address], "ports": subset.ports}));
        }
    }
    endpoints.subsets = packed.into_iter().rev().map(|subset| serde_json::from_value(subset).unwrap()).collect();
}

pub fn meta_mut(body: &mut Body) -> &mut Meta {
    match body {
        Body::Service(object) => &mut object.metadata,
        Body::Slice(object) => &mut object.metadata,
        Body::Endpoints(object) => &mut object.metadata,
    }
}

pub fn to_json(body: &Body) -> Value {
    match body {
        Body::Service(object) => serde_json::to_value(object).unwrap(),
        Body::Slice(object) => serde_json::to_value(object).unwrap(),
        Body::Endpoints(object) => serde_json::to_value(object).unwrap(),
    }
}

pub fn from_json(kind: Kind, value: Value) -> Body {
    if kind == Service::KIND {
        Body::Service(serde_json::from_value(value).unwrap())
    } else if kind == EndpointSlice::KIND {
        Body::Slice(serde_json::from_value(value).unwrap())
    } else {
        Body::Endpoints(serde_json::from_value(value).unwrap())
    }
}

pub fn observe(observed: &mut Observed, body: &Body) -> bool {
    match from_json(body.kind(), to_json(body)) {
        Body::Service(object) => observed.set_service(&object, ReportOrder::Unordered),
        Body::Slice(object) => observed.set_slice(&object, ReportOrder::Unordered),
        Body::Endpoints(object) => observed.set_endpoints(&object, ReportOrder::Unordered),
    }
}
