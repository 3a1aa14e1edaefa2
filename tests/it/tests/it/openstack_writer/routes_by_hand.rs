//! What people do by hand to the policies, rules, pools and members of a router, on the real services.

use std::collections::BTreeMap;

use gimbal_testkit::eventually;
use serde_json::{Value, json};

use super::controller::MADE;
use super::routes::{ROUTER, expect_answers, expect_rest, routed, shape};
use super::stage::{PROD1, Stage};
use super::tls::issued;

const OWNER: &str = "dddddddd-0000-4000-8000-000000000002";
/// Where there is no member.
const STRANGER: &str = "10.0.0.99";

fn id(row: &Value) -> String {
    row["id"].as_str().unwrap().to_owned()
}

/// The addresses of the members of each pool, by the name of the pool.
async fn members(stage: &Stage) -> BTreeMap<String, Vec<String>> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut all = BTreeMap::new();
    for pool in stage.rows("pools", "").await {
        let members = stage.rows(&format!("pools/{}/members", id(&pool)), "").await;
        let mut addresses: Vec<String> = members.iter().map(|member| text(&member["address"])).collect();
        addresses.sort();
        all.insert(text(&pool["name"]), addresses);
    }
    all
}

/// Removes the one member of a pool, and adds one to another pool.
async fn change_members(stage: &Stage) {
    let pools = stage.rows("pools", "").await;
    let collection = |name: &str| {
        let pool = pools.iter().find(|pool| pool["name"] == name).unwrap();
        format!("pools/{}/members", id(pool))
    };
    let three = collection("shop_three");
    let [member] = &stage.rows(&three, "").await[..] else { panic!("not one member of {three}") };
    stage.cloud.delete(&format!("/{three}/{}", id(member))).await.unwrap();
    let stranger = json!({"address": STRANGER, "protocol_port": 8080});
    stage.cloud.create(&format!("/{}", collection("shop_one")), &stranger).await.unwrap();
}

/// What was changed, what is missing and what was added is as before, and what is to be kept stays.
pub async fn what_people_do_by_hand(stage: &Stage) {
    let controller = stage.controller(PROD1);
    let certificate = issued(stage, &controller, "a.test", 3);
    let routes = [
        ("a.test", "/x", "one"),
        ("a.test", "", "two"),
        ("b.test", "", "one"),
        ("c.test", "/x", "three"),
        ("d.test", "/y", "three"),
        ("e.test", "", "two"),
        ("f.test", "/z", "one"),
    ];
    controller.want(ROUTER, routed(stage, (OWNER, 1), &routes, &[("a", certificate.hash)]));
    controller.expect_ready(ROUTER, 1).await;
    let (before, members_before) = (shape(stage).await, members(stage).await);
    assert_eq!(before.len(), 2 * routes.len(), "{before:#?}");
    // Without a stream nothing is repaired, so that people can do everything before the writer looks.
    controller.silence();
    controller.expect_open(false).await;
    let cloud = &stage.cloud;
    let listeners = stage.rows("listeners", "").await;
    let listener = |port: u64| listeners.iter().find(|one| one["protocol_port"] == port).unwrap();
    let http = listener(80);
    let mut policies = stage.rows("l7policies", &format!("listener_id={}", id(http))).await;
    policies.sort_by_key(|one| one["position"].as_u64());
    let policy = |at: usize| format!("/l7policies/{}", id(&policies[at]));
    cloud.delete(&policy(0)).await.unwrap();
    let elsewhere = json!({"redirect_pool_id": policies[2]["redirect_pool_id"], "name": "theirs"});
    cloud.update(&policy(1), &elsewhere).await.unwrap();
    cloud.update(&policy(2), &json!({"admin_state_up": false})).await.unwrap();
    let rules = stage.rows(&format!("l7policies/{}/rules", id(&policies[3])), "").await;
    let rule = rules.iter().find(|rule| rule["type"] == "HOST_NAME").unwrap();
    cloud.update(&format!("{}/rules/{}", policy(3), id(rule)), &json!({"value": "theirs.test"})).await.unwrap();
    let rules = stage.rows(&format!("l7policies/{}/rules", id(&policies[4])), "").await;
    let rule = rules.iter().find(|rule| rule["type"] != "HOST_NAME").unwrap();
    cloud.delete(&format!("{}/rules/{}", policy(4), id(rule))).await.unwrap();
    cloud.update(&policy(5), &json!({"position": 1})).await.unwrap();
    // With it the policy takes less than before.
    let more = json!({"type": "PATH", "compare_type": "ENDS_WITH", "value": "/theirs"});
    cloud.create(&format!("{}/rules", policy(6)), &more).await.unwrap();
    for (name, tags) in [("added", json!([])), ("kept", json!(["gimbal:keep"]))] {
        let body = json!({"listener_id": id(http), "name": name, "action": "REJECT", "position": 1, "tags": tags});
        let made = cloud.create("/l7policies", &body).await.unwrap();
        let rule = json!({"type": "PATH", "compare_type": "EQUAL_TO", "value": format!("/{name}")});
        cloud.create(&format!("/l7policies/{}/rules", id(&made)), &rule).await.unwrap();
    }
    // All of HTTPS.
    cloud.delete(&format!("/listeners/{}", id(listener(443)))).await.unwrap();
    change_members(stage).await;
    controller.speak();
    let wait = eventually("everything is set back", MADE, async || {
        let found = shape(stage).await;
        let ours = |line: &&String| !line.contains("\"kept\"");
        // The one that stays has a position, too.
        let without_position = |line: &String| {
            let mut words: Vec<&str> = line.split(' ').collect();
            words.remove(1);
            words.join(" ")
        };
        let (found_ours, wanted): (Vec<_>, Vec<_>) =
            (found.iter().filter(ours).map(without_position).collect(), before.iter().map(without_position).collect());
        let is_kept = found.len() == found_ours.len() + 1;
        if is_kept && found_ours == wanted { Ok(()) } else { Err(format!("{found:#?} and not {before:#?}")) }
    });
    wait.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.writer().process.log_tail()));
    let wait = eventually("the members are as before", MADE, async || {
        let found = members(stage).await;
        if found == members_before { Ok(()) } else { Err(format!("{found:?} and not {members_before:?}")) }
    });
    wait.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.writer().process.log_tail()));
    expect_answers(stage, &controller, &routes).await;
    expect_answers(stage, &controller, &[("e.test", "/kept", "403")]).await;
    stage.expect_looks(1).await;
    expect_rest(stage).await;
    controller.remove(ROUTER, OWNER).await;
    assert_eq!((stage.balancers("").await.len(), stage.secrets().await), (0, Vec::new()));
}
