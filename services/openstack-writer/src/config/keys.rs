//! Texts of the configuration that end in requests to OpenStack, or that controllers receive. Each is checked while it is read, so
//! that an error has its line and names its key.

use std::marker::PhantomData;
use std::str::FromStr;

use gimbal_kuryr_model::{MOST_NAME, MOST_REFERENCE, Text, id_problem, words_problem};
use gimbal_model::NamespacePattern;
use gimbal_octavia_plan::is_reserved_word;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::policy::namespace_of_group;

/// A key of a cluster's section, and what its values have to be.
pub(super) trait TextKey {
    /// Where it is in the section.
    const PATH: &'static str;

    /// Returns why a text that is not empty is no value of it.
    fn problem(text: &str) -> Option<String>;
}

macro_rules! keys {
    ($($problem:ident $key:ident $path:literal;)*) => {$(
        #[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(in crate::config) enum $key {}

        impl TextKey for $key {
            const PATH: &'static str = $path;

            fn problem(text: &str) -> Option<String> {
                $problem(text)
            }
        }
    )*};
}

keys! {
    id_problem ClusterUid "clusterUid";
    id_problem FormerUid "formerUids";
    id_problem Project "neutron_defaults.project";
    id_problem ServiceSubnet "neutron_defaults.service_subnet";
    id_problem PodSubnet "neutron_defaults.pod_subnet";
    id_problem PodSecurityGroup "neutron_defaults.pod_security_groups";
    id_problem ExternalNetwork "neutron_defaults.external_svc_net";
    id_problem ExternalSubnet "neutron_defaults.external_svc_subnet";
    tag_problem ResourceTag "neutron_defaults.resource_tags";
    name_problem UsualProvider "kubernetes.endpoints_driver_octavia_provider";
    id_problem WorkerSubnet "pod_vif_nested.worker_nodes_subnets";
    id_problem AllowedProject "projects.allow";
    id_problem FormerProject "formerProjects";
    reference_problem Certificate "certificates.allow";
    id_problem VipSubnet "vip.subnets";
    id_problem VipNetwork "vip.networks";
    id_problem VipPort "vip.ports";
    id_problem SubnetPool "podSubnets.subnetPool";
    id_problem Router "podSubnets.router";
    id_problem FloatingNetwork "floating.allow";
    name_problem Provider "providers.allow";
    id_problem Flavor "providers.flavors";
    name_problem AvailabilityZone "providers.availabilityZones";
    name_problem ClassName "classes";
    id_problem ClassFloatingNetwork "classes.*.floatingNetwork";
    name_problem ClassFloatingSubnet "classes.*.floatingSubnet";
    name_problem ClassFloatingSubnetTag "classes.*.floatingSubnetTags";
    id_problem ClassNetwork "classes.*.network";
    id_problem ClassSubnet "classes.*.subnet";
    id_problem ClassMemberSubnet "classes.*.memberSubnet";
    name_problem ClassProvider "classes.*.provider";
    id_problem ClassFlavor "classes.*.flavor";
    name_problem ClassAvailabilityZone "classes.*.availabilityZone";
    group_problem SharedGroup "sharedGroups";
    pattern_problem JoiningNamespace "sharedGroups.*";
}

/// A text that was checked. An empty one stands for none.
#[derive(Debug)]
pub(super) struct Keyed<K>(String, PhantomData<K>);

/// A text of a list, or the key of a map, that was checked. It is not empty.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Listed<K>(String, PhantomData<K>);

impl<K: TextKey> FromStr for Keyed<K> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match Some(text).filter(|text| !text.is_empty()).and_then(K::problem) {
            Some(problem) => Err(format!("{}: {text:?} {problem}", K::PATH)),
            None => Ok(Self(text.to_owned(), PhantomData)),
        }
    }
}

impl<K: TextKey> FromStr for Listed<K> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err(format!("{}: a value is empty", K::PATH));
        }
        let Keyed(text, key) = text.parse()?;
        Ok(Self(text, key))
    }
}

impl<'de, K: TextKey> Deserialize<'de> for Keyed<K> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl<'de, K: TextKey> Deserialize<'de> for Listed<K> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl<K> From<Listed<K>> for Text {
    fn from(Listed(text, _): Listed<K>) -> Self {
        text.into()
    }
}

impl<K> Keyed<K> {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<K> Listed<K> {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns the text, if there is one.
pub(super) fn text<K>(keyed: Option<Keyed<K>>) -> Option<Text> {
    keyed.map(|keyed| keyed.0).filter(|text| !text.is_empty()).map(Text::from)
}

/// Returns the texts of a list.
pub(super) fn texts<K, T: FromIterator<Text>>(listed: Vec<Listed<K>>) -> T {
    listed.into_iter().map(Text::from).collect()
}

fn name_problem(text: &str) -> Option<String> {
    words_problem(text, MOST_NAME).or_else(|| blank_problem(text))
}

fn blank_problem(text: &str) -> Option<String> {
    (text.trim() != text).then(|| "begins or ends with a blank".to_owned())
}

fn reference_problem(text: &str) -> Option<String> {
    let has_blank = text.contains(char::is_whitespace);
    words_problem(text, MOST_REFERENCE).or_else(|| has_blank.then(|| "has a blank, as no reference has".to_owned()))
}

/// A tag that reads like a part of a mark would make what carries it somebody's.
fn tag_problem(text: &str) -> Option<String> {
    let list = || text.contains(',').then(|| "has a comma, at which OpenStack divides lists of tags".to_owned());
    let mark = || is_reserved_word(text).then(|| "is what load balancers are owned by: use another word".to_owned());
    name_problem(text).or_else(list).or_else(mark)
}

fn group_problem(text: &str) -> Option<String> {
    namespace_of_group(text).is_none().then(|| "is no group: write it as NAMESPACE/NAME".to_owned())
}

fn pattern_problem(text: &str) -> Option<String> {
    text.parse::<NamespacePattern>().err().map(|_| "can match no namespace".to_owned())
}
