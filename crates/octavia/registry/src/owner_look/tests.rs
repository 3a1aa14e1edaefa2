use gimbal_octavia_plan::Mark;
use serde_json::{Value, json};

use super::{LookPart, OwnerLook};

/// The same of floating IPs, whose ports everybody else's clients come through.
#[test]
fn what_a_search_for_a_description_finds_without_it_is_not_the_owners() {
    let mark = Mark { cluster_uid: "c1".into(), cluster: "prod1".into(), owner: "u1".into() };
    let (mut look, reads) = OwnerLook::begin(&mark, &["p1".into()], None, 0);
    let row = |id: &str, description: &str| json!({"id": id, "project_id": "p1", "description": description});
    for (part, project, _) in reads {
        let rows = match part {
            LookPart::Floating => vec![row("theirs", "vpn"), row("ours", &mark.description()), row("plain", "")],
            _ => Vec::new(),
        };
        look.rows(&part, &project, rows);
    }
    let (seen, _) = look.end().unwrap();
    assert_eq!(seen.floating.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["ours"]);
}

/// A service that does not know the search for tags answers with everybody's load balancers.
#[test]
fn what_a_search_for_tags_finds_without_them_is_not_the_owners() {
    let mark = Mark { cluster_uid: "c1".into(), cluster: "prod1".into(), owner: "u1".into() };
    let (mut look, reads) = OwnerLook::begin(&mark, &["p1".into()], None, 0);
    let row = |id: &str, tags: &[&str]| json!({"id": id, "project_id": "p1", "tags": tags});
    let all: [Value; 4] = [
        row("untagged", &[]),
        row("of-another-owner", &["k8s-cluster:c1", "k8s-svc-uid:u2"]),
        row("of-another-cluster", &["k8s-cluster:c2", "k8s-svc-uid:u1"]),
        // Without the name of the cluster, which is there for people.
        row("ours", &["k8s-cluster:c1", "k8s-svc-uid:u1"]),
    ];
    for (part, project, _) in reads {
        let rows = if matches!(part, LookPart::Balancers) { all.to_vec() } else { Vec::new() };
        look.rows(&part, &project, rows);
    }
    assert!(look.is_over());
    let (seen, _) = look.end().unwrap();
    assert_eq!(seen.balancers.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["ours"]);
}
