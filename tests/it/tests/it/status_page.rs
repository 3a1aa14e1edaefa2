//! The status page of the writer, as a browser asks for it.

use std::time::Duration;

use gimbal_testkit::process::{binary, free_port};
use gimbal_testkit::{Process, eventually};
use gimbal_tests::{Mirror, SOON, Scene, get, slice_of, svc};
use reqwest::{Client, Response};
use serde_json::Value;

fn client() -> Client {
    Client::builder().no_proxy().build().unwrap()
}

async fn asked(port: u16, path: &str) -> Response {
    client().get(format!("http://127.0.0.1:{port}{path}")).send().await.unwrap()
}

async fn json(port: u16, path: &str) -> Value {
    let answer = asked(port, path).await;
    assert_eq!(answer.status(), 200, "{path}");
    serde_json::from_str(&answer.text().await.unwrap()).unwrap()
}

/// Reads states as they are sent until one holds.
async fn state(port: u16, holds: impl Fn(&Value) -> bool) -> Value {
    let mut answer = asked(port, "/status/events").await;
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let mut text = String::new();
    let reading = async {
        loop {
            let chunk = answer.chunk().await.unwrap().expect("the stream goes on");
            text.push_str(std::str::from_utf8(&chunk).unwrap());
            while let Some((event, rest)) = text.split_once("\n\n") {
                assert!(event.contains("event: state") && event.contains("retry: "), "{event}");
                let data = event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
                let state: Value = serde_json::from_str(data).unwrap();
                if holds(&state) {
                    return state;
                }
                text = rest.to_owned();
            }
        }
    };
    tokio::time::timeout(SOON, reading).await.expect("a state that holds")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_sees_backends_live_and_finds_services_and_why() {
    let scene = Scene::start().await.unwrap();
    scene.source.namespace("nowhere").await.unwrap();
    for (namespace, name) in [("team1", "web"), ("team1", "api"), ("nowhere", "lost")] {
        scene.put(&svc(namespace, name, &[("http", 80)])).await.unwrap();
        scene.put(&slice_of(namespace, name, "a", 1, 3)).await.unwrap();
    }
    let writer = scene.writer(&scene.config(&["node02", "other"], "").unwrap(), &[]).await.unwrap();
    let port = writer.admin_port;
    let page = asked(port, "/status").await;
    assert_eq!(page.status(), 200);
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'; script-src 'self';") && !policy.contains("unsafe"), "{policy}");
    for (name, value) in
        [("x-content-type-options", "nosniff"), ("x-frame-options", "DENY"), ("cache-control", "no-store")]
    {
        assert_eq!(page.headers()[name], value);
    }
    let html = page.text().await.unwrap();
    assert!(html.contains("<html lang=\"en\">") && !html.contains("http://") && !html.contains("https://"), "{html}");
    for (file, kind) in [("page.css", "text/css; charset=utf-8"), ("page.js", "text/javascript; charset=utf-8")] {
        assert!(html.contains(&format!("status/{file}")), "{html}");
        assert_eq!(asked(port, &format!("/status/{file}")).await.headers()["content-type"], kind);
    }

    // The states come by themselves, from before there is an agent on.
    let watching = tokio::spawn(state(port, |state| state["backends"][0]["rejected"] == 1));
    let discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    discoverer.ready().await.unwrap();
    let shown = watching.await.unwrap();
    assert!(shown["standing"].as_str().unwrap().starts_with("This writer leads: "), "{shown}");
    let other = &shown["backends"][1];
    assert_eq!((&other["backend"], &other["state"]), (&Value::from("other"), &Value::from("away")));
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();
    scene.put(&slice_of("team1", "web", "a", 1, 5)).await.unwrap();
    let shown =
        state(port, |state| state["backends"][0]["history"].as_array().is_some_and(|minutes| minutes.len() == 1));
    let node = shown.await["backends"][0].clone();
    assert_eq!((&node["lag"]["changes"], &node["history"][0]["changes"]), (&Value::from(1), &Value::from(1)));

    let found = json(port, "/status/services?q=WEB").await;
    assert_eq!(found["services"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(
        (&found["services"][0]["source"], &found["services"][0]["ready"]),
        (&"team1/web".into(), &"5 of 5".into())
    );
    let trouble = json(port, "/status/services?q=&backend=node02&trouble=1").await;
    assert_eq!(
        (&trouble["services"][0]["source"], &trouble["services"][0]["state"]),
        (&"nowhere/lost".into(), &"rejected".into())
    );
    assert_eq!(json(port, "/status/services?backend=other").await["services"], Value::Array(Vec::new()));
    let why = json(port, "/status/why?backend=node02&service=nowhere%2Flost").await;
    assert!(why["reasons"].to_string().contains("namespace nowhere does not exist"), "{why}");
    for wrong in
        ["/status/why?backend=node02&service=web", "/status/why?backend=Bad_Name&service=a/b", "/status/services?q=%"]
    {
        assert_eq!(asked(port, wrong).await.status(), 400, "{wrong}");
    }

    // The discoverer shows what it reads.
    let own = discoverer.admin_port;
    assert_eq!(asked(own, "/status").await.status(), 200);
    let shown = state(own, |state| state["backends"][0]["rejected"] == 1).await;
    assert_eq!(shown["title"], "gimbal-kubernetes-discoverer of node02");
    assert!(shown["standing"].as_str().unwrap().ends_with("to the writer"), "{shown}");
    assert_eq!(shown["backends"][0]["history"], Value::Null, "it does not measure when a change is written");
    assert_eq!(json(own, "/status/services?q=WEB").await["services"].as_array().unwrap().len(), 1);
    let why = json(own, "/status/why?backend=node02&service=nowhere%2Flost").await;
    assert!(why["reasons"].to_string().contains("namespace nowhere does not exist"), "{why}");

    // Nothing is done by it, and a page elsewhere that has its name resolve to loopback gets nothing.
    for path in ["/status", "/status/events", "/status/services"] {
        let url = format!("http://127.0.0.1:{port}{path}");
        assert_eq!(client().post(&url).send().await.unwrap().status(), 405, "{path}");
        let rebound = client().get(&url).header("host", "gimbal.example:7480").send().await.unwrap();
        assert_eq!(rebound.status(), 403, "{path}");
    }
    // Browsers take a part of the connections only.
    let mut streams = Vec::new();
    loop {
        let answer = asked(port, "/status/events").await;
        if answer.status() == 503 {
            break;
        }
        streams.push(answer);
    }
    assert_eq!(streams.len(), 16);
    assert_eq!(get(port, "/healthz").await.unwrap().0, 200);
    drop(streams);
    eventually("their places are free again", SOON, async || {
        anyhow::ensure!(asked(port, "/status/events").await.status() == 200, "they are not");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_others_reach_has_the_page_only_on_demand() {
    let scene = Scene::start().await.unwrap();
    let config = scene.config(&["node02"], "").unwrap();
    for (flags, expected, elsewhere) in
        [(&[][..], 404, 404), (&["--status-page", "--status-page-hosts", "gimbal.example,other.example"][..], 200, 403)]
    {
        let (port, admin_port) = (free_port().unwrap(), free_port().unwrap());
        let kubeconfig = scene.gimbal.user("writer").unwrap();
        let mut args = scene.writer_args(kubeconfig.kubeconfig(), port, admin_port, &config, flags).unwrap();
        let at = args.iter().position(|arg| arg == "--admin-listen").unwrap();
        args[at + 1] = format!("0.0.0.0:{admin_port}");
        let log = scene.path(&format!("page-{admin_port}.log"));
        let writer = Process::start("gimbal-writer", &binary("gimbal-writer").unwrap(), &args, &log).unwrap();
        eventually("the writer serves", SOON, async || {
            let (status, _) = get(admin_port, "/healthz").await?;
            anyhow::ensure!(status == 200, "{status}\n{}", writer.log_tail());
            Ok(())
        })
        .await
        .unwrap();
        assert_eq!(asked(admin_port, "/status").await.status(), expected, "{flags:?}");
        // A browser that was led here by another name, as by a port-forward's, gets nothing.
        for (host, expected) in
            [("gimbal.example:7480", expected), ("localhost", expected), ("evil.example", elsewhere)]
        {
            let url = format!("http://127.0.0.1:{admin_port}/status");
            let asked = client().get(&url).header("host", host).timeout(Duration::from_secs(5));
            assert_eq!(asked.send().await.unwrap().status(), expected, "{host}");
        }
    }
}
