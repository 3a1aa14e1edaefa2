//! Agents that call themselves a backend whose identity their certificate does not have, so that a person finds out why no agent of
//! the backend connects.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gimbal_model::BackendName;
use gimbal_transport::{Peer, Viewer, caller};

use crate::config::Config;

/// An agent that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misnamed {
    /// Names of its certificate.
    pub names: Vec<String>,
    /// The backend that its certificate stands for; `None`: it stands for none.
    stands_for: Option<BackendName>,
    /// When it was refused.
    at: Instant,
}

impl Misnamed {
    /// Returns the time since it was refused.
    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.at)
    }
}

/// The last one of each backend. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct MisnamedAgents(Arc<Mutex<BTreeMap<BackendName, Misnamed>>>);

impl MisnamedAgents {
    /// Notes an agent that calls itself `backend`, unless its certificate stands for this backend. Names that no configuration lists
    /// are not kept: whoever has a certificate can make up any number of them.
    pub fn came(&self, config: &Config, peer: &Peer, stands_for: Option<&BackendName>, backend: &str, now: Instant) {
        let Some(listed) = config.backends.iter().find(|listed| listed.name.as_str() == backend) else { return };
        if stands_for == Some(&listed.name) {
            return;
        }
        let (names, stands_for) = (caller(peer, &Viewer::All).names, stands_for.cloned());
        self.lock().insert(listed.name.clone(), Misnamed { names, stands_for, at: now });
    }

    /// An agent of the backend came in: what was refused before is of no interest any more, and neither is what it called itself
    /// before. An agent that still has the wrong name dials again, and is noted again.
    pub fn came_in(&self, backend: &BackendName) {
        self.lock().retain(|named, refused| named != backend && refused.stands_for.as_ref() != Some(backend));
    }

    /// Returns the last one that called itself this backend.
    pub fn last(&self, backend: &BackendName) -> Option<Misnamed> {
        self.lock().get(backend).cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<BackendName, Misnamed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::SystemTime;

    use gimbal_transport::PeerCertificate;

    use super::*;

    #[test]
    fn the_last_one_of_a_listed_backend_is_known_until_its_own_agent_comes() {
        let text = "backends: [{name: a, identity: spiffe://x/a}, {name: b, identity: b.example}]";
        let config = Config::parse(Path::new("writer.yaml"), text).unwrap();
        let peer = |san: &str| {
            let (not_after, address) = (SystemTime::UNIX_EPOCH, ([10, 0, 0, 1], 7).into());
            let sans = vec![san.to_owned()];
            Peer::Certificate(Arc::new(PeerCertificate { sans, fingerprint_sha256: String::new(), not_after, address }))
        };
        let name = |text: &str| BackendName::parse(text).unwrap();
        let (agents, start) = (MisnamedAgents::default(), Instant::now());
        let (own, other) = (name("a"), name("b"));
        agents.came(&config, &peer("spiffe://x/a"), Some(&own), "a", start);
        agents.came(&config, &peer("b.example"), Some(&other), "made-up", start);
        agents.came(&config, &peer("b.example"), Some(&other), "", start);
        assert_eq!((agents.last(&own), agents.lock().len()), (None, 0));
        agents.came(&config, &peer("spiffe://x/other"), None, "a", start);
        agents.came(&config, &peer("b.example"), Some(&other), "a", start);
        let last = agents.last(&own).unwrap();
        assert_eq!((last.names.as_slice(), agents.lock().len()), (&["b.example".to_owned()][..], 1));
        assert_eq!(last.age(start + Duration::from_secs(3)), Duration::from_secs(3));
        agents.came_in(&own);
        assert_eq!(agents.last(&own), None);
        // An agent of b was set up as a, and has its own name now.
        agents.came(&config, &peer("b.example"), Some(&other), "a", start);
        agents.came_in(&other);
        assert_eq!(agents.last(&own), None);
        // Its certificate stands for no backend, so b does not excuse it.
        agents.came(&config, &peer("spiffe://x/other"), None, "a", start);
        agents.came_in(&other);
        assert!(agents.last(&own).is_some());
    }
}
