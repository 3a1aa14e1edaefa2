//! The agents' side, and the connections.

use gimbal_model::SourceKey;
use gimbal_session::{AgentConfig, AgentEnd, AgentVerdict, Scope};

use crate::setup::{Backend, Offer, address};
use crate::world::{Agent, Link, World};

impl Agent {
    pub(crate) fn new(backend: &Backend) -> Self {
        let name = backend.name.to_string();
        let mut end = AgentEnd::new(AgentConfig { instance: name.clone(), backend: name, version: "test".into() });
        end.set_incarnation(format!("source of {}", backend.name));
        Self { end, has_read: false, unknown: None }
    }
}

impl World {
    /// Returns what a source has now.
    pub(crate) fn source(&self, agent: usize) -> Vec<(SourceKey, Offer)> {
        let backend = &self.setup.backends[agent];
        let mut has = backend.has.clone();
        for (key, offer) in &backend.script[..self.small.next[agent]] {
            has.retain(|(other, _)| other != key);
            has.extend(offer.clone().map(|offer| (key.clone(), offer)));
        }
        has
    }

    pub(crate) fn change(&mut self, agent: usize) {
        let (key, offer) = self.setup.backends[agent].script[self.small.next[agent]].clone();
        self.small.next[agent] += 1;
        let target = self.setup.backends[agent].target(&key);
        let had = self.setup.backends[agent].has.iter().filter(|(other, _)| *other == key);
        for host in had.flat_map(|(_, offer)| offer.hosts.keys()) {
            let stays = offer.as_ref().is_some_and(|offer| offer.hosts.contains_key(host));
            if !stays && self.small.lasting.get(&address(*host)) == Some(&target) {
                self.small.lasting.remove(&address(*host));
            }
        }
        let now = self.now();
        if self.agents[agent].has_read && self.agents[agent].unknown != Some(&*key.namespace) {
            self.agents[agent].edit().end.set(key, offer.map(|offer| offer.service()), now);
        }
    }

    /// The agent reads its source, for the first time or again.
    pub(crate) fn read(&mut self, agent: usize) {
        let (now, has) = (self.now(), self.source(agent));
        let one = self.agents[agent].edit();
        let gone: Vec<SourceKey> = one.end.services().map(|(key, _)| key.clone()).collect();
        for key in gone.into_iter().filter(|key| has.iter().all(|(other, _)| other != key)) {
            one.end.set(key, None, now);
        }
        for (key, offer) in has {
            one.end.set(key, Some(offer.service()), now);
        }
        one.end.source_complete();
        one.has_read = true;
        one.unknown = None;
    }

    pub(crate) fn lose_sight(&mut self, agent: usize, namespace: &'static str) {
        let one = self.agents[agent].edit();
        one.unknown = Some(namespace);
        one.end.scope_unknown(Scope::Namespaces(vec![namespace.into()]), "no answer".into());
    }

    pub(crate) fn see_again(&mut self, agent: usize) {
        if self.agents[agent].unknown.is_some() && self.agents[agent].has_read {
            self.read(agent);
        }
    }

    pub(crate) fn dial(&mut self, agent: usize) {
        let now = self.now();
        self.agents[agent].edit().end.connected(now);
        let link = Link { agent_open: true, writer_open: true, ..Link::default() };
        self.links[agent].edit().push(link);
    }

    pub(crate) fn has_something_to_say(&self, agent: usize) -> bool {
        self.agents[agent].end.wants_redial() || self.agents[agent].end.clone().next(self.now()).is_some()
    }

    pub(crate) fn say(&mut self, agent: usize) {
        let now = self.now();
        if self.agents[agent].end.wants_redial() {
            return self.cut(agent, false);
        }
        let message = self.agents[agent].edit().end.next(now);
        if let Some(link) = self.links[agent].edit().last_mut() {
            link.up.extend(message);
        }
    }

    pub(crate) fn down(&mut self, agent: usize) {
        let now = self.now();
        let heard = self.links[agent].edit().last_mut().and_then(|link| link.down.pop_front());
        match heard.map(|message| self.agents[agent].edit().end.receive(message, now)) {
            Some(AgentVerdict::Continue) => {}
            Some(AgentVerdict::Close { .. }) | None => self.cut(agent, false),
        }
    }

    /// Ends the agent's side of its connection.
    pub(crate) fn cut(&mut self, agent: usize, lost: bool) {
        self.agents[agent].edit().end.disconnected();
        if let Some(link) = self.links[agent].edit().last_mut() {
            link.agent_open = false;
            link.down.clear();
            if lost {
                link.up.clear();
            }
        }
    }

    pub(crate) fn kill_agent(&mut self, agent: usize) {
        if self.links[agent].last().is_some_and(|link| link.agent_open) {
            self.cut(agent, true);
        }
        *self.agents[agent].edit() = Agent::new(&self.setup.backends[agent]);
    }
}
