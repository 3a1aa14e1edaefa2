//! The provider: how long its work takes, what it cannot do, and how changes end.

use std::time::Duration;

use crate::cloud::CloudModel;
use crate::http::ApiRefusal;
use crate::objects::Progress;
use crate::schema::ApiKind;

/// How one change ends. Changes end well unless a test says otherwise with [`CloudModel::expect`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It ends well, after the provider's usual time.
    Done,
    /// It ends well, after this time.
    DoneAfter(Duration),
    /// It ends in `ERROR`: the load balancer itself if that was created, else the object that was changed.
    Fails,
    /// It leaves the whole load balancer in `ERROR`.
    Breaks,
    /// It never ends.
    Stalls,
    /// The driver raises an error: answer 500, and nothing has changed.
    Raises,
}

/// What a provider can do. [`Provider::default`] can do everything that the model knows, as the amphora provider can.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Provider {
    /// The name, the `provider` of load balancers.
    pub name: String,
    /// How long a load balancer stays `PENDING_CREATE`.
    pub create_time: Duration,
    /// How long it stays `PENDING_UPDATE` or `PENDING_DELETE`.
    pub update_time: Duration,
    /// Whether a load balancer can be created with its listeners and pools.
    pub populated: bool,
    /// Whether the members of a pool can be changed in one request.
    pub batch: bool,
    /// Whether a listener can be restricted to client addresses.
    pub allowed_cidrs: bool,
    /// Whether listeners may have L7 policies.
    pub l7: bool,
    /// The protocols that listeners and pools may have.
    pub protocols: Vec<String>,
    /// How pools may choose a member.
    pub algorithms: Vec<String>,
    /// Whether the provider invents the VIP's address and port, so that Neutron is not asked.
    pub invents_vips: bool,
    /// Whether a load balancer may be created on a given port: `allow_vip_port_id`.
    pub own_port: bool,
    /// Whether the driver writes itself into a given port, so that a second load balancer cannot have it. Octavia does not.
    pub claims_ports: bool,
    /// Whether the role that asks may fail load balancers over.
    pub failover: bool,
    /// Whether the port of a VIP can have security groups: `vip_sg_ids`.
    pub security_groups: bool,
    /// Whether the driver sets the groups of the VIP's port when a load balancer is made, changed itself or failed over: its
    /// own, which opens what listeners serve, and `vip_sg_ids`, in the place of all others. Amphora does, also with a given
    /// port.
    pub sets_port_groups: bool,
    /// Whether what was created with a load balancer becomes `ACTIVE` with it. Some drivers forget it, and neither say so nor
    /// forward to it.
    pub finishes_children: bool,
    /// Whether Octavia hears how load balancers are: without a health manager they stay `OFFLINE` while they serve.
    pub reports_health: bool,
}

impl Default for Provider {
    fn default() -> Self {
        let protocols = ["HTTP", "HTTPS", "PROXY", "PROXYV2", "TCP", "TERMINATED_HTTPS", "UDP", "SCTP", "PROMETHEUS"];
        let algorithms = ["ROUND_ROBIN", "LEAST_CONNECTIONS", "SOURCE_IP", "SOURCE_IP_PORT"];
        Self {
            name: "lab".into(),
            create_time: Duration::from_secs(20),
            update_time: Duration::from_secs(1),
            populated: true,
            batch: true,
            allowed_cidrs: true,
            l7: true,
            protocols: protocols.map(str::to_owned).into(),
            algorithms: algorithms.map(str::to_owned).into(),
            invents_vips: false,
            own_port: true,
            claims_ports: false,
            failover: true,
            security_groups: true,
            sets_port_groups: false,
            finishes_children: true,
            reports_health: true,
        }
    }
}

impl Provider {
    pub(crate) fn refuse(&self, what: &str) -> ApiRefusal {
        ApiRefusal::new(501, format!("Provider '{}' does not support a requested option: {what}", self.name))
    }

    pub(crate) fn check_algorithm(&self, algorithm: &str) -> Result<(), ApiRefusal> {
        let is_known = self.algorithms.iter().any(|one| one == algorithm);
        // As the driver for OVN says it.
        if is_known { Ok(()) } else { Err(self.refuse(&format!("it does not support {algorithm} algorithm"))) }
    }
}

/// A change that the provider works on.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    /// When it ends; `None` for never.
    due: Option<Duration>,
    fate: Fate,
    /// The object that the request was about.
    about: String,
}

impl CloudModel {
    /// Hands a change to the provider, after the load balancer was locked. The last check of a request: what it refuses must
    /// be rolled back by the caller, so that nothing has changed.
    pub(crate) fn dispatch(&mut self, about: &str) -> Result<(), ApiRefusal> {
        let fate = self.fates.pop_front().unwrap_or(Fate::Done);
        if fate == Fate::Raises {
            let words = format!("Provider '{}' reports error: it broke", self.provider.name);
            return Err(ApiRefusal::new(500, words));
        }
        let balancer = self.store.balancer_of(about);
        let creates = self.store.find(&balancer).is_some_and(|one| one.provisioning == Progress::PendingCreate);
        let usual = if creates { self.provider.create_time } else { self.provider.update_time };
        let after = match fate {
            Fate::Stalls => None,
            Fate::DoneAfter(time) => Some(time),
            _ => Some(usual),
        };
        let due = after.map(|after| self.now + after);
        self.work.insert(balancer, Work { due, fate, about: about.to_owned() });
        Ok(())
    }

    /// Lets a load balancer become `ACTIVE` with everything that a driver has left behind.
    pub fn finish(&mut self, balancer: &str) {
        for id in self.store.tree(balancer) {
            self.store.mark(&id, Progress::Active);
        }
        self.render(balancer);
    }

    /// Ends, in this way, every change that would never end: as somebody does who starts Octavia's workers again, or who sets
    /// what they have left to `ERROR` ([`Fate::Breaks`]).
    pub fn end_stalled(&mut self, fate: Fate) {
        let stalled: Vec<(String, Work)> = self.work.extract_if(.., |_, work| work.due.is_none()).collect();
        for (balancer, work) in stalled {
            self.end(&balancer, &Work { fate, ..work });
        }
    }

    /// Ends what is due.
    pub(crate) fn settle(&mut self) {
        let now = self.now;
        let due = |work: &Work| work.due.is_some_and(|due| due <= now);
        let ended: Vec<(String, Work)> = self.work.extract_if(.., |_, work| due(work)).collect();
        for (balancer, work) in ended {
            self.end(&balancer, &work);
        }
    }

    fn end(&mut self, balancer: &str, work: &Work) {
        let was = self.store.find(balancer).map(|one| one.provisioning);
        let fails = work.fate == Fate::Fails;
        let breaks = work.fate == Fate::Breaks || (fails && work.about == balancer) || self.is_refused(balancer);
        let mut gone = Vec::new();
        for id in self.store.tree(balancer) {
            let Some(object) = self.store.get_mut(&id) else { continue };
            let is_about = id == work.about || object.parent.as_deref() == Some(work.about.as_str());
            let fails = breaks || (fails && is_about && id != balancer);
            let is_forgotten = object.provisioning == Progress::PendingCreate
                && !self.provider.finishes_children
                && id != work.about
                && (work.about == balancer || !is_about);
            if is_forgotten && !breaks {
                continue;
            }
            let left = std::mem::replace(&mut object.provisioning, Progress::Active);
            match left {
                Progress::PendingDelete if !fails => gone.push(id),
                Progress::PendingCreate | Progress::PendingUpdate | Progress::PendingDelete if fails => {
                    object.provisioning = Progress::Error;
                }
                Progress::Error => object.provisioning = Progress::Error,
                Progress::PendingUpdate => object.updated = Some(self.now),
                _ => {}
            }
        }
        if !breaks && was == Some(Progress::PendingDelete) {
            self.remove_balancer(balancer);
            return;
        }
        for id in gone {
            let left = self.store.find(&id).filter(|one| one.kind == ApiKind::Policy);
            let listener = left.and_then(|policy| policy.parent.clone());
            self.remove_deleted(&id);
            if let Some(listener) = listener {
                self.renumber(&listener);
            }
        }
        if self.provider.sets_port_groups
            && work.about == balancer
            && !breaks
            && let Some(object) = self.store.find(balancer)
        {
            let groups = object.fields.get("vip_sg_ids").and_then(serde_json::Value::as_array);
            let groups = groups.map(Vec::as_slice).unwrap_or_default();
            self.network.set_port_groups(balancer, object.text("vip_port_id"), groups);
        }
        // A change that failed leaves the running configuration as it was.
        if !breaks && !fails {
            self.render(balancer);
        }
        self.set_operating(balancer);
    }

    /// Takes what a health manager says of a load balancer, if there is such a one. It holds until the next change of it ends.
    pub fn report_operating(&mut self, balancer: &str, status: &'static str) {
        if let Some(object) = self.store.get_mut(balancer) {
            object.operating = status;
        }
    }

    /// Computes operating statuses without a health monitor's reports.
    fn set_operating(&mut self, balancer: &str) {
        for id in self.store.tree(balancer) {
            let Some(object) = self.store.find(&id) else { continue };
            let monitored = object.kind == ApiKind::Member
                && object
                    .parent
                    .as_deref()
                    .is_some_and(|pool| self.store.below(pool, ApiKind::Monitor).next().is_some());
            let status = match object.kind {
                _ if !object.is_on("admin_state_up") => "OFFLINE",
                // One that was never configured says nothing of itself.
                ApiKind::LoadBalancer if !self.applied.contains_key(&id) || !self.provider.reports_health => "OFFLINE",
                ApiKind::Member if !monitored => "NO_MONITOR",
                _ => "ONLINE",
            };
            if let Some(object) = self.store.get_mut(&id) {
                object.operating = status;
            }
        }
    }
}
