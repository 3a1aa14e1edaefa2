//! What a session takes for granted of its payload.

use std::sync::Arc;

use gimbal_kuryr_model::{DesiredEntry, DesiredLoadBalancer, MemberChange};
use gimbal_kuryr_wire::{DesiredHeader, Kuryr};
use gimbal_session::{Entry, EntryChange, Key as _};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::values::{desired_header, entry, key, member, member_id};

fn digest(entry: &DesiredEntry, key: &gimbal_kuryr_model::DesiredKey) -> gimbal_model::Digest {
    Entry::<Kuryr>::digest(entry, key)
}

/// A pair that often has the owner in common.
fn pair() -> impl Strategy<Value = (DesiredEntry, DesiredEntry)> {
    let members_only = (entry(), vec(member(), 0..12)).prop_map(|(old, parts)| {
        let new = <DesiredEntry as Entry<Kuryr>>::new(old.header(), parts);
        (old, new)
    });
    prop_oneof![(entry(), entry()), members_only]
}

fn changes() -> impl Strategy<Value = Vec<MemberChange>> {
    vec(prop_oneof![member().prop_map(MemberChange::Set), member_id().prop_map(MemberChange::Gone)], 0..8)
}

proptest! {
    #[test]
    fn a_change_leads_from_the_old_entry_to_the_new_one((old, new) in pair(), key in key()) {
        let mut held = old.clone();
        let mut sum = digest(&held, &key);
        match <DesiredEntry as Entry<Kuryr>>::between(Some(&old), Some(&new)) {
            None => prop_assert_eq!(&old, &new),
            Some(EntryChange::Replace(entry)) => {
                prop_assert_eq!(&entry, &new);
                prop_assert!(old.owner() != new.owner() || old.is_deleting() != new.is_deleting());
                return Ok(());
            }
            Some(EntryChange::Update { header, parts }) => {
                prop_assert!(header.is_some() || !parts.is_empty());
                Entry::<Kuryr>::update(&mut held, &key, &mut sum, header, parts);
            }
            Some(EntryChange::Remove) => prop_assert!(false, "the new entry exists"),
        }
        prop_assert_eq!(&held, &new);
        prop_assert_eq!(sum, digest(&new, &key));
        let different = digest(&old, &key) != digest(&new, &key);
        prop_assert_eq!(different, old != new);
    }

    #[test]
    fn an_entry_is_its_header_and_its_parts(entry in entry()) {
        let parts: Vec<_> = Entry::<Kuryr>::parts(&entry).collect();
        prop_assert_eq!(parts.len(), Entry::<Kuryr>::part_count(&entry));
        prop_assert!(parts.is_sorted_by(|a, b| a.id < b.id), "in one order, each once");
        let mut backwards = parts;
        backwards.reverse();
        prop_assert_eq!(<DesiredEntry as Entry<Kuryr>>::new(entry.header(), backwards), entry);
    }

    /// Also of an agent that sends what no honest one does.
    #[test]
    fn any_update_keeps_the_digest(
        entry in entry(), key in key(), header in proptest::option::of(desired_header()), parts in changes(),
    ) {
        let (mut held, mut sum) = (entry.clone(), digest(&entry, &key));
        let kept = header.clone().unwrap_or_else(|| entry.header());
        Entry::<Kuryr>::update(&mut held, &key, &mut sum, header, parts);
        prop_assert_eq!(sum, digest(&held, &key));
        prop_assert_eq!(held.header(), kept);
    }

    #[test]
    fn the_bit_that_says_what_is_known_is_carried_and_nothing_else(entry in entry(), key in key()) {
        let DesiredEntry::LoadBalancer(old) = &entry else { return Ok(()) };
        let mut header = (*old.header).clone();
        header.known = !header.known;
        let new = DesiredEntry::LoadBalancer(DesiredLoadBalancer { header: Arc::new(header), ..old.clone() });
        prop_assert_ne!(digest(&entry, &key), digest(&new, &key));
        let change = <DesiredEntry as Entry<Kuryr>>::between(Some(&entry), Some(&new));
        let Some(EntryChange::Update { header: Some(header), parts }) = change else { panic!("{change:?}") };
        let DesiredHeader::LoadBalancer { generation, header } = &*header else { panic!() };
        prop_assert_eq!((*generation, header.known), (old.generation, !old.header.known));
        prop_assert!(parts.is_empty());
    }

    #[test]
    fn keys_of_a_namespace_follow_its_first_one(one in key(), other in key()) {
        let first = gimbal_kuryr_model::DesiredKey::first_in(one.namespace.clone());
        prop_assert!(first <= one);
        if other.namespace < one.namespace {
            prop_assert!(other < first, "namespaces come one after another");
        }
    }
}

#[test]
fn what_comes_and_goes_is_a_replacement_and_a_removal() {
    let entry = DesiredEntry::Deleting { owner: "one".into() };
    let between = <DesiredEntry as Entry<Kuryr>>::between;
    assert_eq!(between(None, None), None);
    assert_eq!(between(None, Some(&entry)), Some(EntryChange::Replace(entry.clone())));
    assert_eq!(between(Some(&entry), None), Some(EntryChange::Remove));
    assert!(Entry::<Kuryr>::is_deleting(&entry));
}
