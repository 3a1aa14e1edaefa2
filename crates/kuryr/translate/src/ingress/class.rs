//! Which Ingresses are ours.

use std::collections::BTreeMap;

use gimbal_kubernetes_objects::{Ingress, IngressClass};
use gimbal_kuryr_crd::names::{INGRESS_CONTROLLER, annotations, finalizers};
use gimbal_kuryr_model::Text;

/// What is kept of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Class {
    is_ours: bool,
    is_default: bool,
    created: Option<Text>,
}

/// The classes of a cluster, by name.
#[derive(Debug, Default)]
pub(crate) struct Classes(BTreeMap<Text, Class>);

/// Whose an Ingress is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Whose {
    /// It is to be routed.
    Ours,
    /// It is routed, and stays so: its class is gone, and somebody may only have removed that too early.
    OursWithoutClass,
    /// Somebody else's, or going.
    NotOurs,
}

impl Classes {
    /// Adds a class or replaces it, and returns whether anything changed by that.
    pub(crate) fn apply(&mut self, class: &IngressClass) -> bool {
        let kept = Class {
            is_ours: &*class.spec.controller == INGRESS_CONTROLLER,
            is_default: class.is_default() && !class.metadata.is_being_deleted(),
            created: class.metadata.creation_timestamp.clone(),
        };
        let name = class.metadata.meta.name.clone();
        let changed = self.0.get(&name) != Some(&kept);
        self.0.insert(name, kept);
        changed
    }

    /// Removes a class, and returns whether it was there.
    pub(crate) fn delete(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }

    /// Removes the classes that are not in a complete list, and returns whether there were any.
    pub(crate) fn retain(&mut self, is_listed: impl Fn(&Text) -> bool) -> bool {
        let before = self.0.len();
        self.0.retain(|name, _| is_listed(name));
        self.0.len() != before
    }

    /// The field counts, else the older annotation, else the default class.
    pub(crate) fn whose(&self, ingress: &Ingress) -> Whose {
        if ingress.metadata.is_being_deleted() {
            return Whose::NotOurs;
        }
        let named = class_name(ingress);
        let class = match named {
            Some(name) => self.0.get(name),
            None => self.default(),
        };
        match (named, class) {
            (_, Some(class)) if class.is_ours => Whose::Ours,
            (Some(_), Some(_)) => Whose::NotOurs,
            // Another default class is for what is made from then on, and ours may only be away while somebody replaces it.
            _ if ingress.metadata.has_finalizer(finalizers::INGRESS) => Whose::OursWithoutClass,
            _ => Whose::NotOurs,
        }
    }

    /// Of several the API server takes the youngest, and of those the first by name.
    fn default(&self) -> Option<&Class> {
        let of_default = self.0.iter().filter(|(_, class)| class.is_default);
        let youngest = of_default.min_by(|(name, class), (other_name, other)| {
            other.created.cmp(&class.created).then_with(|| name.cmp(other_name))
        });
        youngest.map(|(_, class)| class)
    }
}

/// The name of the class that an Ingress has.
pub(crate) fn class_name(ingress: &Ingress) -> Option<&Text> {
    let annotation = || ingress.annotations().get(annotations::INGRESS_CLASS);
    ingress.spec.ingress_class_name.as_ref().or_else(annotation)
}
