//! What goes on of an entry that is refused.

use super::*;

/// Members such as `80=10.0.0.1` or, if it only drains, `80=10.0.0.1-`.
fn members(text: &str) -> DesiredMembers {
    let member = |text: &str| {
        let (port, address) = text.trim_end_matches('-').split_once('=').unwrap();
        let pool = ListenerId::new(Protocol::Tcp, port.parse().unwrap()).into();
        DesiredMember {
            id: MemberId { pool, address: address.parse().unwrap(), port: 8080 },
            weight: u8::from(!text.ends_with('-')),
            name: None,
            subnet: None,
        }
    };
    DesiredMembers::new(text.split_whitespace().map(member).collect())
}

#[test]
fn members_stay_where_there_are_no_new_ones_that_may_be_served() {
    // The former ones are those of the ports 80 and 81. The listeners of the refused version begin at 80.
    let former = "80=10.0.0.1 81=10.0.0.1";
    for (listeners, refused, expected) in [
        (2, "80=10.0.0.2 81=10.0.0.3", "80=10.0.0.2 81=10.0.0.3"),
        (2, "81=10.0.0.3", "81=10.0.0.3"),
        // A port more, or less.
        (3, "80=10.0.0.2 81=10.0.0.3 82=10.0.0.4", "80=10.0.0.2 81=10.0.0.3"),
        (1, "80=10.0.0.2", "80=10.0.0.2 81=10.0.0.1"),
        // One that is not allowed beside one that is, and alone.
        (2, "80=10.0.0.2 80=192.168.0.1 81=10.0.0.3", "80=10.0.0.2 81=10.0.0.3"),
        (2, "80=192.168.0.1 81=10.0.0.3", "80=10.0.0.1 81=10.0.0.3"),
        (2, "80=10.0.0.2- 80=192.168.0.1 81=10.0.0.3", "80=10.0.0.1 81=10.0.0.3"),
    ] {
        let former = DesiredLoadBalancer { members: members(former), ..wanted(2, &[]) };
        let refused = DesiredLoadBalancer { members: members(refused), generation: 2, ..wanted(listeners, &[]) };
        let (following, waiting) = policy().following(&former, &former.header, &refused, 10);
        assert_eq!((following.members, waiting), (members(expected), 0), "{expected}");
        assert_eq!((following.generation, &following.header), (1, &former.header));
    }
}

#[test]
fn a_member_in_a_subnet_that_is_not_allowed_is_left_out() {
    let (former, mut refused) = (wanted(1, &["10.0.0.1"]), wanted(1, &["10.0.0.2", "10.0.0.3"]));
    let mut all = refused.members.as_slice().to_vec();
    all[1].subnet = Some("elsewhere".into());
    refused.members = DesiredMembers::new(all);
    let (following, _) = policy().following(&former, &former.header, &refused, 10);
    assert_eq!(following.members, wanted(1, &["10.0.0.2"]).members);
}

#[test]
fn ranges_pass_only_if_each_of_them_is_in_what_was_allowed() {
    let ranges = |text: &str| match text {
        "everyone" => ClientRanges::Everyone,
        "no one" => ClientRanges::NoOne,
        ranges => ClientRanges::Only(ranges.split(' ').map(|range| range.parse().unwrap()).collect()),
    };
    for (allowed, refused, passes) in [
        ("everyone", "10.0.0.0/8", true),
        ("everyone", "no one", true),
        ("no one", "10.0.0.0/8", false),
        ("10.0.0.0/8", "everyone", false),
        ("10.0.0.0/8", "no one", true),
        ("10.0.0.0/8 172.16.0.0/12", "10.1.0.0/16 10.2.0.0/16 172.16.1.0/24", true),
        ("10.0.0.0/8 172.16.0.0/12", "10.1.0.0/16 192.168.0.0/16", false),
        // Inside of another one, and together.
        ("10.0.0.0/8 10.1.0.0/16", "10.2.0.0/16", true),
        ("10.0.0.0/9 10.128.0.0/9", "10.0.0.0/8", true),
        ("10.0.0.0/9", "10.0.0.0/8", false),
        ("fd00::/8", "10.0.0.0/8", false),
        ("10.0.0.0/8 fd00::/8", "fd00:1::/32", true),
    ] {
        let former = with(|header| header.clients = ranges(allowed));
        let refused = with(|header| header.clients = ranges(refused));
        let (following, _) = policy().following(&former, &former.header, &refused, 10);
        let expected = if passes { &refused } else { &former };
        assert_eq!(following.header.clients, expected.header.clients, "{allowed}");
    }
}
