//! What users are notified of.

use gimbal_kuryr_resource::{ClusterObject, KuryrKind, ObjectNotice, Told};
use gimbal_kuryr_translate::{Finding, IngressProblem};
use gimbal_model::SourceKey;

use crate::RouterController;

/// What is longer than that takes no more: Kubernetes has room for 1,024 bytes, and the status of the router has the rest.
const LONG: usize = 600;

impl<T> RouterController<T> {
    /// Tells it on the object. What is wrong with a router is reported on the Ingresses that it serves, too.
    pub(crate) fn tell(&mut self, object: &ClusterObject, notices: Vec<Told>) {
        let key = object.key();
        for told in notices {
            if object.kind == KuryrKind::Ingress {
                self.tell_ingress(&key, told);
                continue;
            }
            if told.is_warning {
                self.served_by(&key).iter().for_each(|ingress| self.tell_ingress(ingress, told.clone()));
            }
            let router = self.routers.get(&key).and_then(|item| item.kept.object());
            if let Some(uid) = router.map(|router| router.metadata.meta.uid.clone()) {
                self.notices.push(ObjectNotice { object: object.clone(), uid, told });
            }
        }
    }

    fn tell_ingress(&mut self, key: &SourceKey, told: Told) {
        let Some(ingress) = self.ingresses.get(key).and_then(|item| item.kept.object()) else { return };
        let uid = ingress.metadata.meta.uid.clone();
        self.notices.push(ObjectNotice { object: ClusterObject::new(key, KuryrKind::Ingress), uid, told });
    }

    /// Tells what of the Ingresses of a router is left out, when that changes while they are watched.
    pub(crate) fn tell_findings(&mut self, key: &SourceKey, findings: &[Finding]) {
        for ingress in self.served_by(key) {
            // Where it moves, the router that it moves to is the one to tell.
            if self.index.router_of(&ingress) != Some(key) {
                continue;
            }
            let of_it = findings.iter().filter_map(|finding| match finding {
                Finding::Ingress { ingress: of, problem } if *of == ingress => Some(problem),
                _ => None,
            });
            let told = about(of_it);
            self.tell_changed(&ingress, told);
        }
    }

    /// Tells that an Ingress is not served, and why.
    pub(crate) fn tell_not_served(&mut self, key: &SourceKey) {
        let router = self.index.router_of(key).filter(|_| self.settings.namespaces.contains(&key.namespace)).cloned();
        let Some(router) = router.filter(|_| self.facts.is_some()) else { return };
        if !self.is_enabled() {
            self.tell_changed(key, about([&IngressProblem::NotEnabled]));
        } else if self.is_taken(&router) {
            self.tell_changed(key, about([&IngressProblem::RouterTaken { router }]));
        }
    }

    /// What was not said before is reported. After a restart nothing is: what there is was said by the process before.
    fn tell_changed(&mut self, key: &SourceKey, now: Vec<Told>) {
        let Some(item) = self.ingresses.get_mut(key) else { return };
        let Some(before) = item.told.replace(now.clone()) else { return };
        now.into_iter().filter(|told| !before.contains(told)).for_each(|told| self.tell_ingress(key, told));
    }
}

/// One notice for each reason: an object has one Event for each.
fn about<'a>(problems: impl IntoIterator<Item = &'a IngressProblem>) -> Vec<Told> {
    let mut told: Vec<(&'static str, String)> = Vec::new();
    for problem in problems {
        match told.iter_mut().find(|(event, _)| *event == problem.event()) {
            Some((_, message)) if message.len() > LONG => {}
            Some((_, message)) => *message = format!("{message}; {problem}"),
            None => told.push((problem.event(), problem.to_string())),
        }
    }
    told.into_iter().map(|(event, message)| Told::warning(event, message)).collect()
}
