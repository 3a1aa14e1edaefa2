//! What owners of one load balancer are to get.

use std::collections::BTreeMap;

use gimbal_kuryr_model::{DesiredKey, Phase};

use crate::wish::Wish;

/// Returns what the load balancer of a wish is to forward, for all who share it, and what is to be reported about the wish.
pub fn forwards(
    wishes: &BTreeMap<(String, DesiredKey), Wish>,
    key: &(String, DesiredKey),
) -> (Vec<(u16, Vec<String>)>, Phase) {
    let Some((group, _)) = &wishes[key].group else { return (wishes[key].forwards(), Phase::Ready) };
    let is_of = |wish: &Wish| !wish.deleting && wish.group.as_ref().is_some_and(|(name, _)| name == group);
    let mut all: Vec<_> = wishes.iter().filter(|((cluster, _), wish)| *cluster == key.0 && is_of(wish)).collect();
    all.sort_by_key(|(_, wish)| (wish.group.as_ref().map(|(_, age)| *age), wish.owner.clone()));
    let mut ports = BTreeMap::new();
    for (of, wish) in all {
        for (port, members) in wish.forwards() {
            ports.entry(port).or_insert((members, of));
        }
    }
    let has = wishes[key].ports.is_empty() || ports.values().any(|(_, of)| *of == key);
    let phase = if has { Phase::Ready } else { Phase::Blocked };
    (ports.into_iter().map(|(port, (members, _))| (port, members)).collect(), phase)
}
