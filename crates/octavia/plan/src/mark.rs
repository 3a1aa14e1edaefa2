//! The mark that everything made for an owner carries, and by which it is found again. Nothing else knows its words.

use gimbal_kuryr_model::{GROUP_OF_OWNERS as GROUP, ListenerId, PoolId, Text};
use serde_json::Value;

/// Identifies the owner of an object in OpenStack. Names are for people; nothing is ever found or taken by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The UID of the cluster's namespace `kube-system`.
    pub cluster_uid: Text,
    /// The cluster's name.
    pub cluster: Text,
    /// The UID of the owner in that cluster, or what [`group_owner`] returns for a group of owners.
    pub owner: Text,
}

/// Keeps an object that was added by hand to a load balancer of ours, and a floating IP whose owner goes.
pub const KEEP: &str = "gimbal:keep";
const CLUSTER: &str = "k8s-cluster:";
const CLUSTER_NAME: &str = "gimbal-cluster:";
const OWNER: &str = "k8s-svc-uid:";
const PORT: &str = "gimbal-port:";
const REPLACES: &str = "gimbal-replaces:";
const POOL: &str = "gimbal-pool:";
const ROUTE: &str = "gimbal-route:";
const SET: &str = "gimbal-set:";

/// Returns the tag that finds everything of the cluster with this UID.
#[must_use]
pub fn cluster_tag(uid: &str) -> String {
    format!("{CLUSTER}{uid}")
}

/// Returns the tag that finds everything of the cluster with this name.
#[must_use]
pub fn cluster_name_tag(name: &str) -> String {
    format!("{CLUSTER_NAME}{name}")
}

/// Returns the UIDs of the clusters that these tags name.
pub fn clusters_in<'a>(words: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
    words.filter_map(|word| word.strip_prefix(CLUSTER))
}

/// Whether a tag, or a word of a description, is a part of the mark of this cluster, or of what is said beside it.
#[must_use]
pub fn is_word_of_mark(word: &str, cluster_uid: &str, cluster: &str) -> bool {
    let of_owner = [OWNER, GROUP, PORT, POOL, ROUTE, REPLACES, SET].iter().any(|prefix| word.starts_with(prefix));
    of_owner
        || word.strip_prefix(CLUSTER).is_some_and(|uid| uid == cluster_uid)
        || word.strip_prefix(CLUSTER_NAME).is_some_and(|name| name == cluster)
}

/// Whether a tag has a meaning here, so that no one may choose it for something else.
#[must_use]
pub fn is_reserved_word(word: &str) -> bool {
    let prefixes = [CLUSTER, CLUSTER_NAME, OWNER, GROUP, PORT, POOL, ROUTE, REPLACES, SET];
    word == KEEP || prefixes.iter().any(|prefix| word.starts_with(prefix))
}

/// Returns what stands for the owner where several share a load balancer. No UID begins so.
#[must_use]
pub fn group_owner(namespace: &str, name: &str) -> Text {
    format!("{GROUP}{namespace}:{name}").into()
}

/// Whether an owner is a group of owners.
#[must_use]
pub fn is_group(owner: &str) -> bool {
    owner.starts_with(GROUP)
}

/// Returns the UIDs of the owners that these tags name. Those of a shared load balancer name several.
pub fn owners_in<'a>(words: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
    words.filter_map(|word| word.strip_prefix(OWNER))
}

/// Returns the tag of one owner, not of a group.
#[must_use]
pub fn owner_tag_of(owner: &str) -> String {
    format!("{OWNER}{owner}")
}

impl Mark {
    /// Returns the tags that an object must carry. Sorted.
    #[must_use]
    pub fn tags(&self) -> [String; 3] {
        let mut tags = [cluster_name_tag(&self.cluster), self.cluster_tag(), self.owner_tag()];
        tags.sort();
        tags
    }

    /// Returns the tag that finds everything of the cluster.
    #[must_use]
    pub fn cluster_tag(&self) -> String {
        cluster_tag(&self.cluster_uid)
    }

    /// Returns the tag that finds everything of the owner.
    #[must_use]
    pub fn owner_tag(&self) -> String {
        if is_group(&self.owner) { self.owner.to_string() } else { owner_tag_of(&self.owner) }
    }

    /// Returns the description of Neutron's objects. Neutron writes it together with the object, and tags only after it.
    #[must_use]
    pub fn description(&self) -> String {
        self.tags().join(" ")
    }

    /// Returns all descriptions of the owner's objects in Neutron, whose filter compares them whole: that of
    /// [`Mark::description`], and that of a floating IP which is kept when its owner goes.
    #[must_use]
    pub fn descriptions(&self) -> [String; 2] {
        let plain = self.description();
        let kept = format!("{plain} {KEEP}");
        [plain, kept]
    }

    /// Whether a description holds the mark, whatever else is in it.
    pub(crate) fn is_in(&self, description: &str) -> bool {
        self.is_among(description.split(' '))
    }

    /// Whether an object with these tags is the owner's.
    pub(crate) fn is_on(&self, tags: &[String]) -> bool {
        self.is_among(tags.iter().map(String::as_str))
    }

    fn is_among<'a>(&self, words: impl Iterator<Item = &'a str> + Clone) -> bool {
        let has = |tag: &str| words.clone().any(|word| word == tag);
        // What a group has names its owners as well, and belongs to all of them.
        has(&self.cluster_tag())
            && has(&self.owner_tag())
            && (is_group(&self.owner) || !words.clone().any(is_group))
            && !names_another_cluster(words.clone(), &self.cluster)
    }
}

/// Whether one of these tags, or words of a description, names another cluster than this one. A UID is what a controller says of
/// itself; the name is what its certificate stands for, so an object with another cluster's name is not taken for a UID's sake.
pub fn names_another_cluster<'a>(mut words: impl Iterator<Item = &'a str>, cluster: &str) -> bool {
    words.any(|word| word.strip_prefix(CLUSTER_NAME).is_some_and(|name| name != cluster))
}

/// Returns the owner that these tags, or words of a description, name: a UID, or that of a group ([`group_owner`]), whatever
/// owners it has. `None` unless they are the mark of this cluster, whose tag is `cluster_tag` ([`Mark::cluster_tag`]).
pub fn marked_owner<'a>(
    mut words: impl Iterator<Item = &'a str> + Clone,
    cluster_tag: &str,
    cluster: &str,
) -> Option<&'a str> {
    let is_ours = words.clone().any(|word| word == cluster_tag) && !names_another_cluster(words.clone(), cluster);
    let group = words.clone().find(|word| is_group(word));
    group.or_else(|| owners_in(&mut words).next()).filter(|_| is_ours)
}

/// Whether a description names an owner, whoever's it is.
pub(crate) fn is_marked(description: &str) -> bool {
    description.split(' ').any(|word| word.starts_with(OWNER) || is_group(word))
}

/// Whether a description asks for the object to be left alone.
pub(crate) fn is_kept(description: &str) -> bool {
    description.split_whitespace().any(|word| word == KEEP)
}

/// Returns the tag of a load balancer that is made to take another one's place. It tells the two from the twins of a lost
/// creation, also to a writer that was started in between.
pub(crate) fn replaces_tag(id: &str) -> String {
    format!("{REPLACES}{id}")
}

/// Returns the tag that says which listener a pool is for.
pub(crate) fn port_tag(id: ListenerId) -> String {
    format!("{PORT}{}:{}", id.protocol.as_str(), id.port)
}

/// Whether a tag says which listener a pool is for.
pub(crate) fn is_port_tag(tag: &str) -> bool {
    tag.starts_with(PORT)
}

/// Returns the tag that says which listener or Service a pool is for.
pub(crate) fn tag_of_pool(id: &PoolId) -> String {
    match id {
        PoolId::Listener(id) => port_tag(*id),
        PoolId::Service(id) => format!("{POOL}{id}"),
    }
}

/// Whether a tag says which Service a pool is for.
pub(crate) fn is_pool_tag(tag: &str) -> bool {
    service_of(tag).is_some()
}

/// Returns the ID of the pool of a Service that a tag names.
#[must_use]
pub fn service_of(tag: &str) -> Option<&str> {
    tag.strip_prefix(POOL)
}

/// Returns the tag of the policy that takes what this identity stands for. One that was begun is found by it.
pub(crate) fn route_tag(identity: &str) -> String {
    format!("{ROUTE}{identity}")
}

/// Returns the identity that the tag of a policy names.
pub(crate) fn identity_in(tag: &str) -> Option<&str> {
    tag.strip_prefix(ROUTE)
}

/// Returns the tag that says that a field was set because the owner asked for it.
pub(crate) fn set_tag(field: &str) -> String {
    format!("{SET}{field}")
}

/// Returns the field that a tag names which was set because the owner asked for it.
pub(crate) fn field_set(tag: &str) -> Option<&str> {
    tag.strip_prefix(SET)
}

/// Returns the tags of an object with those that it lacks, sorted, as JSON; `None` if it lacks none.
pub(crate) fn with_missing(present: &[String], wanted: &[String]) -> Option<Value> {
    if wanted.iter().all(|tag| present.contains(tag)) {
        return None;
    }
    let mut all: Vec<&String> = present.iter().chain(wanted).collect();
    all.sort();
    all.dedup();
    Some(all.into_iter().cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is taken off is what was put on, whatever the words are.
    #[test]
    fn the_words_of_a_mark_are_those_that_are_put_on() {
        let id = ListenerId::new(gimbal_model::Protocol::Tcp, 80);
        let groups = [Text::from("s-1"), group_owner("team1", "web")];
        for owner in groups {
            let mark = Mark { cluster_uid: "c-1".into(), cluster: "prod1".into(), owner };
            let beside = [
                port_tag(id),
                replaces_tag("lb"),
                owner_tag_of("s-2"),
                tag_of_pool(&PoolId::service("ns", "web", 80)),
                route_tag("0f"),
                set_tag("timeout_client_data"),
            ];
            for word in mark.tags().iter().chain(&beside) {
                assert!(is_word_of_mark(word, "c-1", "prod1") && is_reserved_word(word), "{word}");
            }
            assert_eq!(clusters_in(mark.tags().iter().map(String::as_str)).collect::<Vec<_>>(), ["c-1"]);
        }
        for word in [cluster_tag("c-2"), cluster_name_tag("prod2"), KEEP.to_owned()] {
            assert!(!is_word_of_mark(&word, "c-1", "prod1") && is_reserved_word(&word), "{word}");
        }
        assert!(!is_reserved_word("mine") && !is_word_of_mark("mine", "c-1", "prod1"));
    }

    #[test]
    fn what_names_another_cluster_is_not_this_ones() {
        let mark = Mark { cluster_uid: "c-1".into(), cluster: "prod3".into(), owner: "s-1".into() };
        let other = Mark { cluster: "prod1".into(), ..mark.clone() };
        assert!(mark.is_on(&mark.tags()) && mark.is_in(&mark.description()));
        assert!(!mark.is_on(&other.tags()) && !mark.is_in(&other.description()));
        assert!(mark.is_on(&[mark.cluster_tag(), mark.owner_tag()]), "a name that somebody took off is put on again");
    }
}
