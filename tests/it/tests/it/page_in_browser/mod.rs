//! The status page in a real browser: by keyboard alone, for a screen reader, in the dark, and on a phone. `cargo xtask prove page`
//! runs it, since a browser takes long to install.

use std::time::Duration;

use gimbal_testkit::{assets, is_without_network};
use gimbal_tests::{Scene, slice_of, svc};
use serde_json::Value;

mod chromium;

use chromium::{Look, Tab};

/// Where pictures are written, for the documentation.
const PICTURES: &str = "GIMBAL_PICTURES";

const LOOKS: [Look; 4] = [
    Look { name: "light", width: 1280, height: 900, dark: false },
    Look { name: "dark", width: 1280, height: 900, dark: true },
    Look { name: "phone", width: 360, height: 780, dark: false },
    Look { name: "phone-dark", width: 360, height: 780, dark: true },
];

/// Returns whether this is where there is no network; the test runs there.
fn is_alone(test: &str) -> bool {
    let prepare = || {
        for name in ["gimbal-writer", "gimbal-kubernetes-discoverer"] {
            gimbal_testkit::process::binary(name)?;
        }
        for asset in assets::Asset::ALL {
            asset.path()?;
        }
        assets::chromium().and_then(|_| assets::axe()).map(drop)
    };
    is_without_network(test, prepare).unwrap()
}

/// Presses Tab until the element that this selector finds has the focus.
async fn tab_to(tab: &mut Tab, selector: &str) {
    for _ in 0..40 {
        tab.press("Tab", None).await.unwrap();
        if tab.value(&format!("document.activeElement.matches({selector:?})")).await.unwrap() == true {
            return;
        }
    }
    panic!("{selector} is not reached by keyboard");
}

async fn press_enter(tab: &mut Tab) {
    tab.press("Enter", Some("\r")).await.unwrap();
}

/// Returns what axe finds, a line for each element.
async fn faults(tab: &mut Tab) -> Vec<String> {
    let found =
        tab.value("axe.run(document, {resultTypes: ['violations']}).then((found) => found.violations)").await.unwrap();
    let lines = found.as_array().unwrap().iter().flat_map(|fault| {
        let nodes = fault["nodes"].as_array().unwrap().iter();
        nodes.map(|node| format!("{}: {} {}", fault["id"], node["html"], node["failureSummary"])).collect::<Vec<_>>()
    });
    lines.collect()
}

/// A page that finds no place comes back by itself, and one that is live says nothing of it when its connection is renewed.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_stays_live() {
    if !is_alone("page_in_browser::a_page_stays_live") {
        return;
    }
    let scene = Scene::start().await.unwrap();
    let writer = scene.writer(&scene.config(&["node02"], "").unwrap(), &[]).await.unwrap();
    let origin = format!("http://127.0.0.1:{}/", writer.admin_port);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut others = Vec::new();
    loop {
        let answer = client.get(format!("{origin}status/events")).send().await.unwrap();
        if answer.status() != 200 {
            break;
        }
        others.push(answer);
    }
    let mut tab = Tab::open(&assets::chromium().unwrap(), &format!("{origin}status")).await.unwrap();
    tab.until("document.getElementById('live')?.textContent.startsWith('Not live')").await.unwrap();
    drop(others);
    tab.until("document.getElementById('live').textContent === 'Live'").await.unwrap();

    let said = "window.said = []; new MutationObserver(() => said.push(document.getElementById('live').textContent))\
        .observe(document.getElementById('live'), {childList: true, characterData: true, subtree: true}); true";
    tab.value(said).await.unwrap();
    tab.value("performance.clearResourceTimings(); true").await.unwrap();
    let renewed = "performance.getEntriesByType('resource').some((entry) => entry.name.endsWith('status/events'))";
    tab.until_within(renewed, Duration::from_secs(90)).await.unwrap();
    // The entry is made when the first connection has ended. The next one is there once it has sent states.
    let states = "window.states ||= 0; new MutationObserver(() => { states += 1; })\
        .observe(document.getElementById('backends'), {childList: true, characterData: true, subtree: true}); true";
    tab.value(states).await.unwrap();
    tab.until("states > 1").await.unwrap();
    assert_eq!(tab.value("said").await.unwrap(), serde_json::json!([]), "a screen reader says it");
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_can_read_and_use_the_page() {
    if !is_alone("page_in_browser::everybody_can_read_and_use_the_page") {
        return;
    }
    let scene = Scene::start().await.unwrap();
    scene.source.namespace("nowhere").await.unwrap();
    for (namespace, name) in [("team1", "web"), ("team1", "api"), ("nowhere", "lost")] {
        scene.put(&svc(namespace, name, &[("http", 80)])).await.unwrap();
        scene.put(&slice_of(namespace, name, "a", 1, 3)).await.unwrap();
    }
    let mut writer = scene.writer(&scene.config(&["node02", "node03"], "").unwrap(), &[]).await.unwrap();
    let discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    discoverer.ready().await.unwrap();

    let origin = format!("http://127.0.0.1:{}/", writer.admin_port);
    let mut tab = Tab::open(&assets::chromium().unwrap(), &format!("{origin}status")).await.unwrap();
    tab.look(LOOKS[0]).await.unwrap();
    tab.until("document.getElementById('live')?.textContent === 'Live'").await.unwrap();
    let row = |number: usize| format!("document.querySelectorAll('#backends > li')[{number}].textContent");
    tab.until(&format!("{}.includes('Services 3') && {}.includes('Rejected 1')", row(0), row(0))).await.unwrap();
    tab.until(&format!("{}.includes('node03')", row(1))).await.unwrap();

    // By keyboard alone: the first backend is opened, a Service is searched for and asked about.
    tab_to(&mut tab, "#backends > li:first-child summary").await;
    press_enter(&mut tab).await;
    let plot = "document.querySelector('#backends svg[role=img]')?.getAttribute('aria-label')";
    tab.until(&format!("{plot} === 'No change within the last hour'")).await.unwrap();
    tab_to(&mut tab, "#query").await;
    tab.enter("lost").await.unwrap();
    press_enter(&mut tab).await;
    tab.until("document.getElementById('found').textContent === '1 found'").await.unwrap();
    tab_to(&mut tab, "#results summary").await;
    press_enter(&mut tab).await;
    tab.until("document.querySelector('#results li li')?.textContent.includes('nowhere')").await.unwrap();

    // What comes is shown without a reload, and what was opened stays so.
    scene.put(&svc("team1", "more", &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", "more", "a", 1, 3)).await.unwrap();
    tab.until(&format!("{}.includes('Services 4')", row(0))).await.unwrap();
    tab.until(&format!("{plot}.startsWith('Lag p99')")).await.unwrap();
    assert_eq!(tab.value("document.querySelectorAll('details[open]').length").await.unwrap(), 2);

    let axe = std::fs::read_to_string(assets::axe().unwrap()).unwrap();
    tab.value(&format!("{axe}; true")).await.unwrap();
    for look in LOOKS {
        tab.look(look).await.unwrap();
        assert_eq!(faults(&mut tab).await, [] as [String; 0], "{}", look.name);
        let wide = tab.value("document.documentElement.scrollWidth").await.unwrap();
        assert!(wide.as_u64() <= Some(u64::from(look.width)), "{}: {wide} is wider than the window", look.name);
        if let Some(folder) = std::env::var_os(PICTURES) {
            tab.value("window.scrollTo(0, 0)").await.unwrap();
            let picture = tab.picture().await.unwrap();
            std::fs::write(std::path::Path::new(&folder).join(format!("status-{}.png", look.name)), picture).unwrap();
        }
    }

    let others: Vec<&String> =
        tab.requests.iter().filter(|url| !url.starts_with(&origin) && !url.starts_with("data:")).collect();
    assert!(others.is_empty() && tab.requests.len() > 4, "{:?}", tab.requests);
    assert_eq!(tab.complaints, [] as [String; 0]);

    // A page that is not live any more says so.
    writer.process.kill().unwrap();
    tab.until("document.getElementById('live').textContent.startsWith('Not live')").await.unwrap();
    let shown: Value = tab.value("document.querySelectorAll('#backends > li').length").await.unwrap();
    assert_eq!(shown, 2, "what was known last stays");
}
