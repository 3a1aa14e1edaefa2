//! Who may share a load balancer with whom.

use gimbal_kuryr_model::{DesiredKey, DesiredLoadBalancer};
use gimbal_kuryr_wire::KuryrReason;
use gimbal_model::wildcard_matches;

use super::{ClusterPolicy, PolicyBreach, breach};

impl ClusterPolicy {
    /// Checks that an entry may share the load balancer of the group that it names, if it names one. A group belongs to a
    /// namespace, and those of other namespaces are joined by the configuration alone: whoever shares an address could take its
    /// ports.
    ///
    /// # Errors
    /// It may not.
    pub fn may_share(&self, key: &DesiredKey, wanted: &DesiredLoadBalancer) -> Result<(), PolicyBreach> {
        let Some(group) = wanted.header.shared_group.as_deref() else { return Ok(()) };
        let name = &group.name;
        let Some(namespace) = namespace_of_group(name) else {
            return breach(KuryrReason::Invalid, format!("shared group {name:?} is not a namespace and a name"));
        };
        let joined = self.shared_groups.get(name).map(Vec::as_slice).unwrap_or_default();
        if *namespace != *key.namespace && !joined.iter().any(|pattern| wildcard_matches(pattern, &key.namespace)) {
            let message = format!(
                "namespace {} may not share the load balancer of group {name} (sharedGroups of the writer)",
                key.namespace
            );
            return breach(KuryrReason::SharingNotAllowed, message);
        }
        Ok(())
    }
}

/// Returns the namespace of a group, which is named as `NAMESPACE/NAME`; `None` if this is not the name of one.
pub(crate) fn namespace_of_group(name: &str) -> Option<&str> {
    let (namespace, name) = name.split_once('/')?;
    (is_label(namespace) && is_label(name)).then_some(namespace)
}

/// Whether a text is a label as in RFC 1123. It becomes a part of a tag, where a comma or a blank would end it.
fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len()) && text.bytes().all(inner)
}
