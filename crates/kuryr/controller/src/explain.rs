//! Why an entry is offered as it is, in sentences.

use gimbal_kuryr_model::{DesiredEntry, DesiredKey, DesiredKind};
use gimbal_kuryr_resource::{KeptReport, KuryrKind};
use gimbal_kuryr_wire::PackedEntry;
use gimbal_model::SourceKey;
use gimbal_session::KeptEntry as _;

use crate::KuryrController;
use crate::foreseen::foreseen;
use crate::item::{BalancerItem, WRITTEN, has_finalizer};
use crate::situation::{BalancerOwner, ServiceNeed, Situation};

impl<T> KuryrController<T> {
    /// Returns why an entry is offered as it is, or not at all, in sentences.
    #[must_use]
    pub fn explain(&self, key: &DesiredKey) -> Vec<String> {
        if key.kind != DesiredKind::LoadBalancer {
            return vec![format!("Nothing of kind {} is offered by this controller.", key.kind.as_str())];
        }
        let key = SourceKey { namespace: key.namespace.clone(), name: key.name.clone() };
        let situation = self.situation_now(&key);
        let mut said = vec![about_service(&situation)];
        said.extend(about_balancer(&situation));
        let Some(item) = self.items.get(&key) else { return said };
        said.extend(self.about_offer(&key, &situation, item));
        said.extend(item.findings.iter().chain(&item.offer_findings).map(|finding| match finding.is_of_setting() {
            true => format!("About its settings: {finding}."),
            false => format!("Left out: {finding}."),
        }));
        if let Some(report) = item.offer.report.as_ref().map(KeptReport::get) {
            let error = report.last_error.as_ref().map(|error| format!(" OpenStack's last refusal: {error}"));
            said.push(format!(
                "The writer's last report, about generation {}: {}.{}",
                report.generation,
                report.phase.as_str(),
                error.unwrap_or_default()
            ));
        }
        for (pauses, object) in item.pauses.iter().zip(WRITTEN.map(KuryrKind::as_str)) {
            for (purpose, reason) in pauses.refusals() {
                said.push(format!("The API server refused an attempt to write the {object} ({purpose}): {reason}."));
            }
        }
        said
    }

    fn about_offer(&self, key: &SourceKey, situation: &Situation, item: &BalancerItem<T>) -> Vec<String> {
        let offered = item.offer.offered.as_ref();
        match offered.map(PackedEntry::entry).as_deref() {
            Some(DesiredEntry::LoadBalancer(wanted)) => {
                let members = wanted.members.as_slice().len();
                let ports = wanted.header.listeners.len();
                let mut said = vec![if offered.is_some_and(PackedEntry::is_alone) {
                    "The writer hears of its owner, and of nothing else.".to_owned()
                } else {
                    let generation = wanted.generation;
                    format!("It is offered to the writer as generation {generation}: {ports} ports, {members} members.")
                }];
                said.extend(item.not_offered.as_ref().map(|why| format!("It is not offered as it is: {why}.")));
                said
            }
            Some(DesiredEntry::Deleting { owner }) if item.offer.gone.as_ref() == Some(owner) => {
                vec![format!("Nothing of owner {owner} is left in OpenStack; its finalizers are being removed.")]
            }
            Some(DesiredEntry::Deleting { owner }) => {
                vec![format!(
                    "It is offered to the writer as being deleted. The finalizers stay until nothing of owner {owner} is left."
                )]
            }
            None => self.why_not_offered(key, situation, item),
        }
    }

    fn why_not_offered(&self, key: &SourceKey, situation: &Situation, item: &BalancerItem<T>) -> Vec<String> {
        let mut said = Vec::new();
        if !self.leads {
            said.push("Nothing is offered: another process leads.".to_owned());
        }
        said.extend(self.unread().map(|reason| format!("Nothing is offered: {reason}.")));
        if self.facts.is_none() {
            said.push("Nothing is offered: the writer has not said anything about the cloud yet.".to_owned());
            said.extend(situation.balancer.iter().flat_map(|balancer| foreseen(balancer)));
        }
        said.extend(
            KuryrKind::ALL.into_iter().filter_map(|kind| self.unreadable(kind)).map(|reason| format!("{reason}.")),
        );
        if item.needs_proof {
            said.push("The API server is asked whether the Service is really gone.".to_owned());
        }
        if self.shared_owner.contains(key) && self.may_lack_routers() {
            said.push(
                "Nothing is removed for it: its owner may be a router, and it is not known which there are.".to_owned(),
            );
        }
        if let Some(balancer) = &situation.balancer
            && let Some(reason) = self.not_offered(key, balancer)
        {
            said.push(format!("It is not offered: {reason}."));
        }
        let waits = situation.balancer.as_ref().is_some_and(|balancer| !has_finalizer(balancer));
        if waits && self.facts.is_some() {
            said.push("It is not offered before its finalizer is set.".to_owned());
        }
        said
    }
}

fn about_service(situation: &Situation) -> String {
    let finalizer = if situation.service_is_protected() { "with" } else { "without" };
    match situation.need {
        ServiceNeed::Absent => "There is no Service of this name.".to_owned(),
        ServiceNeed::Wanted => format!("The Service wants a load balancer. It is {finalizer} our finalizer."),
        ServiceNeed::Unwanted(reason) => format!("The Service has no load balancer: {reason}. It is {finalizer} our finalizer."),
        ServiceNeed::NameTaken => "The Service gets no load balancer: a KuryrLoadBalancer of its name was made without a Service, and is served for itself.".to_owned(),
    }
}

fn about_balancer(situation: &Situation) -> Option<String> {
    let balancer = situation.balancer.as_ref()?;
    let whose = match &situation.owner {
        BalancerOwner::None => return None,
        BalancerOwner::Service => "belongs to the Service".to_owned(),
        BalancerOwner::Former(uid) => format!("belongs to a Service that had this name before (UID {uid})"),
        BalancerOwner::Itself => "was made without a Service".to_owned(),
    };
    let state = if balancer.metadata.is_being_deleted() { ", and is being deleted" } else { "" };
    Some(format!("The KuryrLoadBalancer {whose}{state}."))
}
