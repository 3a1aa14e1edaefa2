//! Why an entry is offered as it is, in sentences.

use gimbal_kuryr_model::{DesiredEntry, DesiredKey};
use gimbal_kuryr_resource::{KeptReport, KuryrKind};
use gimbal_kuryr_wire::PackedEntry;
use gimbal_model::SourceKey;
use gimbal_session::KeptEntry as _;

use crate::RouterController;
use crate::item::is_made_for_ingresses;
use crate::item::{IngressPlace, RouterItem, has_finalizer};
use crate::streaming::source_key;

impl<T> RouterController<T> {
    /// Returns why the entry of a router is offered as it is, or not at all, in sentences.
    #[must_use]
    pub fn explain(&self, key: &DesiredKey) -> Vec<String> {
        let key = source_key(key);
        let mut said = vec![self.about_need(&key)];
        let Some(item) = self.routers.get(&key) else { return said };
        said.extend(about_object(item));
        said.extend(self.about_offer(&key, item));
        for (ingress, place) in &item.ingresses {
            if *place != IngressPlace::Served {
                said.push(format!(
                    "Ingress {ingress} leaves it. Its finalizer stays until its routes are not there any more."
                ));
            }
        }
        said.extend(item.findings.iter().chain(&item.offer_findings).map(|finding| format!("{finding}.")));
        if let Some(report) = item.offer.report.as_ref().map(KeptReport::get) {
            let error = report.last_error.as_ref().map(|error| format!(" OpenStack's last refusal: {error}"));
            let error = error.unwrap_or_default();
            let phase = report.phase.as_str();
            said.push(format!("The writer's last report, about generation {}: {phase}.{error}", report.generation));
        }
        for (purpose, reason) in item.pauses.refusals() {
            said.push(format!("The API server refused an attempt to write the KuryrL7Router ({purpose}): {reason}."));
        }
        said
    }

    fn about_need(&self, key: &SourceKey) -> String {
        let served = self.served_by(key).len();
        match &self.facts {
            Some(facts) if !facts.enable_ingress => {
                "Ingresses are not served: openstack-writer has no leave for it (enable_ingress).".to_owned()
            }
            _ if *key == self.settings.ingresses.shared => {
                format!("It is the shared router, and serves {served} Ingresses.")
            }
            _ if self.is_wanted(key) => format!("It serves {served} Ingresses."),
            _ => "No Ingress asks for it.".to_owned(),
        }
    }

    fn about_offer(&self, key: &SourceKey, item: &RouterItem<T>) -> Vec<String> {
        let mut said = Vec::new();
        let offered = item.offer.offered.as_ref();
        match offered.map(PackedEntry::entry).as_deref() {
            Some(_) if offered.is_some_and(PackedEntry::is_alone) => {
                said.push("The writer hears of its owner, and of nothing else.".to_owned());
            }
            Some(DesiredEntry::LoadBalancer(wanted)) => said.push(format!(
                "It is offered to the writer as generation {}: {} members.",
                wanted.generation,
                wanted.members.as_slice().len()
            )),
            Some(DesiredEntry::Deleting { owner }) => {
                said.push(format!("It is offered to the writer as being deleted. Its finalizer stays until nothing of owner {owner} is left."));
            }
            None => {
                if !self.leads {
                    said.push("Nothing is offered: another process leads.".to_owned());
                }
                said.extend(self.unread().map(|reason| format!("Nothing is offered: {reason}.")));
                if self.facts.is_none() {
                    let reason = "the writer has not said anything about the cloud yet";
                    said.push(format!("Nothing is offered: {reason}."));
                }
            }
        }
        said.extend(self.unreadable().map(|reason| format!("{reason}.")));
        said.extend(self.reading(KuryrKind::Secret).unreadable(KuryrKind::Secret).map(|reason| format!("{reason}.")));
        if let Some(reason) = item.kept.object().and_then(|router| self.not_offered(key, router)) {
            said.push(format!("It is not offered as it is: {reason}."));
        }
        said
    }
}

fn about_object<T>(item: &RouterItem<T>) -> Option<String> {
    let router = item.kept.object()?;
    let whose = if is_made_for_ingresses(router) { "was made for Ingresses" } else { "was made by somebody else" };
    let finalizer = if has_finalizer(router) { "with" } else { "without" };
    let state = if router.metadata.is_being_deleted() { ", and is being deleted" } else { "" };
    Some(format!("The KuryrL7Router {whose}. It is {finalizer} our finalizer{state}."))
}
