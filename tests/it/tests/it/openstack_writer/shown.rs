//! What grpcurl and the command line show of load balancers.

use gimbal_testkit::{San, eventually};
use gimbal_tests::{Grpcurl, SOON, gimbalctl_watch};
use serde_json::{Value, json};

use super::admin::lb;
use super::controller::Controller;
use super::stage::Stage;

const INSPECTION: &str = "gimbal.kuryr.v1.InspectionService";

fn key(name: &str) -> Value {
    json!({"kind": "ENTRY_KIND_LOAD_BALANCER", "namespace": "shop", "name": name})
}

fn ask(stage: &Stage) -> Grpcurl {
    stage.programs.ask(stage.writer()).unwrap()
}

fn explained(client: &Grpcurl, name: &str) -> Value {
    let request = json!({"cluster": "prod1", "namespace": "shop", "name": name});
    client.call(&format!("{INSPECTION}/Explain"), &request).unwrap()
}

fn listed(client: &Grpcurl, request: &Value) -> anyhow::Result<Vec<Value>> {
    let answer = client.call(&format!("{INSPECTION}/ListLoadBalancers"), request)?;
    Ok(answer["loadBalancers"].as_array().cloned().unwrap_or_default())
}

/// Waits until the command line shows these changes of `shop/web`, and ends as if something differed. Each is a verb, a kind, and
/// words that are in what is printed of it.
pub async fn expect_diff(stage: &Stage, expected: &[(&str, &str, &str)]) {
    let what = format!("{expected:?} would follow");
    let wait = eventually(&what, SOON, async || {
        let diff = lb(stage, "diff shop/web --cluster prod1 -o json");
        let lines: Vec<&str> = diff.out.lines().collect();
        let is_it = |(line, (verb, kind, words)): (&&str, &(&str, &str, &str))| {
            let change: Value = serde_json::from_str(line).unwrap();
            change["verb"] == *verb && change["kind"] == *kind && line.contains(words)
        };
        let same = lines.len() == expected.len() && lines.iter().zip(expected).all(is_it);
        let ends = diff.code == Some(1) && diff.error.contains("of shop/web would follow");
        if same && ends { Ok(()) } else { Err(format!("{diff:?}")) }
    });
    wait.await.unwrap();
}

/// One that is wanted and may not be made: what it would become, to an administrator and to its cluster.
pub fn what_is_only_planned(stage: &Stage) {
    let client = ask(stage);
    let web = explained(&client, "web");
    assert_eq!((&web["loadBalancer"]["key"], &web["loadBalancer"]["members"]), (&key("web"), &json!("1")), "{web}");
    assert!(web["reasons"].to_string().contains("The writer runs with --dry-run"), "{web}");
    let [planned] = &web["planned"].as_array().unwrap()[..] else { panic!("{web}") };
    let shown = ["verb", "kind", "name"].map(|key| planned[key].as_str().unwrap());
    assert_eq!(shown, ["create", "loadbalancer", "shop/web"]);
    assert!(planned.get("id").is_none() && planned["diff"].to_string().contains("10.0.0.1"), "{planned}");
    assert_eq!(web["wanted"]["header"]["loadBalancer"]["generation"], "1", "{web}");
    assert_eq!(web["wanted"]["members"][0]["members"][0]["port"], 8080, "{web}");
    let none = explained(&client, "none");
    assert!(none.get("loadBalancer").is_none() && none.get("planned").is_none(), "{none}");
    assert!(none["reasons"].to_string().contains("does not want KuryrLoadBalancer shop/none"), "{none}");

    let identity = "spiffe://gimbal.example/cluster/prod1";
    let pair = stage.programs.pki.issue("prod1-asks", &[San::Uri(identity)]).unwrap();
    let own = Grpcurl::tls(&stage.programs.pki, &pair, stage.writer().port);
    let request = json!({"namespace": "shop", "name": "web"});
    let web = own.call(&format!("{INSPECTION}/Explain"), &request).unwrap();
    assert_eq!(web["planned"][0]["verb"], "create", "{web}");
    let refused = format!("{:#}", listed(&own, &json!({"cluster": "prod2"})).unwrap_err());
    assert!(refused.contains("PermissionDenied"), "{refused}");
    let order = json!({"cluster": "prod1", "namespace": "shop", "name": "web", "loadBalancerId": "1", "dryRun": true});
    let refused = format!("{:#}", own.call("gimbal.kuryr.v1.AdminService/Adopt", &order).unwrap_err());
    assert!(refused.contains("PermissionDenied"), "{refused}");
}

/// Two that are served, and one of them goes: lists, and watches that begin before.
pub async fn what_there_is_and_what_changes(stage: &Stage, controller: &Controller, owner_of_more: &str) {
    let client = ask(stage);
    let names = |rows: &[Value]| rows.iter().map(|row| row["key"]["name"].as_str().unwrap().to_owned()).collect();
    let all = listed(&client, &json!({"cluster": "prod1"})).unwrap();
    let found: Vec<String> = names(&all);
    assert_eq!(found, ["more", "web"], "{all:?}");
    for row in &all {
        assert_eq!((&row["cluster"], &row["phase"]), (&json!("prod1"), &json!("PHASE_READY")), "{row}");
        assert!(row["id"].is_string() && row["vip"].is_string(), "{row}");
    }
    for nothing in [json!({"onlyTrouble": true}), json!({"namespace": "other"}), json!({"cluster": "prod2"})] {
        assert_eq!(listed(&client, &nothing).unwrap(), Vec::<Value>::new(), "{nothing}");
    }
    let page = listed(&client, &json!({"pageSize": 1})).unwrap();
    let found: Vec<String> = names(&page);
    assert_eq!(found, ["more"]);
    let refused = format!("{:#}", listed(&client, &json!({"cluster": "prod9"})).unwrap_err());
    assert!(refused.contains("\"prod9\" is not configured"), "{refused}");

    let table = lb(stage, "list --cluster prod1").out;
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("CLUSTER"), "{table}");
    for (line, name) in lines[1..].iter().zip(["shop/more", "shop/web"]) {
        assert!(line.starts_with("prod1") && line.contains(name) && line.contains("ready"), "{table}");
    }
    assert_eq!(lb(stage, "list -n shop -o json").json().len(), 2);
    assert_eq!(lb(stage, "list --trouble -o json").json(), Vec::<Value>::new());
    let same = lb(stage, "diff shop/web --cluster prod1");
    assert_eq!((same.code, &*same.out), (Some(0), "nothing to change\n"), "{same:?}");
    let none = lb(stage, "diff shop/none --cluster prod1");
    assert!(none.code == Some(2) && none.error.contains("there is no load balancer for shop/none"), "{none:?}");

    let request = json!({"cluster": "prod1", "namespace": "shop"});
    let watch = client.watch(&format!("{INSPECTION}/Watch"), &request).unwrap();
    let lines = gimbalctl_watch(&stage.programs, stage.writer().port, "lb watch --cluster prod1 -o json").unwrap();
    for name in ["more", "web"] {
        let event = watch.next();
        assert_eq!(
            (&event["loadBalancer"]["key"], &event["loadBalancer"]["phase"]),
            (&key(name), &json!("PHASE_READY"))
        );
        let line = lines.next();
        assert_eq!((&line["service"], &line["phase"]), (&json!(format!("shop/{name}")), &json!("ready")), "{line}");
    }
    assert_eq!((watch.next(), lines.next()), (json!({"snapshotDone": {}}), json!({"snapshotDone": true})));
    controller.remove("more", owner_of_more).await;
    let gone = watch.until(|event| event.get("gone").is_some());
    assert_eq!(gone, json!({"gone": {"cluster": "prod1", "key": key("more")}}));
    let gone = lines.until(|line| line.get("gone").is_some());
    assert_eq!(gone, json!({"gone": {"cluster": "prod1", "name": "shop/more"}}));
}
