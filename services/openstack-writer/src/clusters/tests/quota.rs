//! Who gets room that became free.

use super::*;

#[test]
fn room_of_one_kind_is_tried_by_those_alone_who_lacked_it() {
    let with = |owner: &str, ports: u16| {
        let DesiredEntry::LoadBalancer(mut wanted) = present(owner, "services") else { panic!("present") };
        let listener = |port| {
            let id = ListenerId::new(Protocol::Tcp, port);
            ListenerWish { id, kind: ListenerKind::Plain, name: None }
        };
        Arc::make_mut(&mut wanted.header).listeners = (1..=ports).map(listener).collect();
        DesiredEntry::LoadBalancer(wanted)
    };
    let names: Vec<String> = (0..1_000).map(|nth| format!("s{nth:04}")).collect();
    let mut entries: Vec<_> = names.iter().map(|name| (key("team", name), present(name, "services"))).collect();
    entries[0].1 = with("s0000", 3);
    let quota = ClusterQuota { load_balancers: 1, ..ClusterQuota::default() };
    let mut ends = Ends::with(&entries, &[("s0000", "team/s0000")], quota);
    assert_eq!(ends.rejects().len(), 999);
    let changed = |ends: &mut Ends| -> BTreeSet<String> {
        ends.all.take_changed().into_iter().map(|one| one.key.name.to_string()).collect()
    };
    changed(&mut ends);
    ends.set(&entries[0].0, Some(with("s0000", 2)));
    assert_eq!(changed(&mut ends), ["s0000".to_owned()].into());
    // What one had goes to the next one, and there is no more of it.
    ends.set(&entries[0].0, None);
    assert_eq!(changed(&mut ends), ["s0000".to_owned(), "s0001".to_owned()].into());
    assert!(ends.is_served(&entries[1].0));
}
