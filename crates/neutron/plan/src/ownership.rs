//! Who has a port, by the mark in its description: Neutron writes it together with the port, and it is compared when it is changed.

use gimbal_kuryr_model::Text;
use gimbal_octavia_plan::{Mark, cluster_tag, is_word_of_mark, marked_owner, owners_in};

/// Beside a mark: the port is being removed, and no one takes it any more.
const GOING: &str = "gimbal:going";

/// The marks of one cluster.
#[derive(Debug, Clone)]
pub(crate) struct PortOwnership {
    cluster_uid: Text,
    cluster: Text,
    tag: String,
}

impl PortOwnership {
    pub(crate) fn new(cluster_uid: Text, cluster: Text) -> Self {
        let tag = cluster_tag(&cluster_uid);
        Self { cluster_uid, cluster, tag }
    }

    fn mark(&self, owner: &Text) -> Mark {
        Mark { cluster_uid: self.cluster_uid.clone(), cluster: self.cluster.clone(), owner: owner.clone() }
    }

    /// Returns the description of an object of this owner.
    pub(crate) fn description(&self, owner: &Text) -> String {
        self.mark(owner).description()
    }

    /// Returns the description of an object of this owner that is being removed.
    pub(crate) fn going(&self, owner: &Text) -> String {
        format!("{} {GOING}", self.description(owner))
    }

    /// Returns the owner that a description names, if it is one of this cluster.
    pub(crate) fn owner<'a>(&self, description: &'a str) -> Option<&'a str> {
        marked_owner(description.split(' '), &self.tag, &self.cluster)
    }

    /// Returns what the tags of an object of this owner are to be, if they are not so yet. Those of somebody else stay.
    pub(crate) fn missing_tags(&self, owner: &Text, present: &[Text]) -> Option<Vec<Text>> {
        let others = present.iter().filter(|tag| !is_word_of_mark(tag, &self.cluster_uid, &self.cluster));
        let mut wanted: Vec<Text> = self.mark(owner).tags().into_iter().map(Text::from).collect();
        wanted.extend(others.cloned());
        wanted.sort_unstable();
        let mut present = present.to_vec();
        present.sort_unstable();
        (wanted != present).then_some(wanted)
    }
}

/// Whether a description says that the object is being removed.
pub(crate) fn is_going(description: &str) -> bool {
    description.split(' ').any(|word| word == GOING)
}

/// Whether tags name an owner that is not this one.
pub(crate) fn name_another(tags: &[Text], owner: &str) -> bool {
    owners_in(tags.iter().map(|tag| &**tag)).any(|named| named != owner)
}
