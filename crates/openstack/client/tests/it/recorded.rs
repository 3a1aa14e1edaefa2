//! Recorded answers of neutron-lbaas (tests/openstack/recorded/lbaas), for machines that cannot run it: what the client
//! reads, and which Services result.
#![expect(clippy::unwrap_used, reason = "helpers of a test panic as a test does")]

use std::path::Path;
use std::time::Instant;

use crate::common::{credentials, options};
use gimbal_octavia_rows::Id;
use gimbal_octavia_rows::{self as rows, Address, OperatingStatus, Protocol, ProvisioningStatus};
use gimbal_openstack_client::{ClientOptions, Cloud, Dialect, Error, LoadBalancing, Lookup, TokenScope};
use gimbal_openstack_source::{CloudPoller as Poll, ListMode, MembersError, Query, Reply};
use gimbal_testkit::fake_openstack::{FakeOpenStack, Fault};
use serde_json::Value;

/// The recordings that every replay answers with; single tests add others.
const RECORDED: [&str; 9] = [
    "loadbalancers",
    "loadbalancer",
    "loadbalancer-gone",
    "statuses",
    "listeners",
    "pools",
    "members",
    "members-of-a-pool-that-is-gone",
    "l7policies",
];

/// One recorded answer. IDs change with each recording, so tests find objects by name.
struct Recorded {
    path: String,
    status: u16,
    body: Value,
}

impl Recorded {
    fn read(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/openstack/recorded/lbaas");
        let text = std::fs::read_to_string(dir.join(format!("{name}.json"))).unwrap();
        let mut recorded: Value = serde_json::from_str(&text).unwrap();
        let request = recorded["request"].as_str().unwrap().strip_prefix("GET ").unwrap();
        let path = request.split('?').next().unwrap().to_owned();
        let status = u16::try_from(recorded["status"].as_u64().unwrap()).unwrap();
        Self { path, status, body: recorded["body"].take() }
    }

    fn fault(&self) -> Fault {
        Fault::on(&self.path).text(self.status, &self.body.to_string())
    }
}

/// Returns a field of the recorded row whose field `key` has this value.
fn find(name: &str, key: &str, value: &str, field: &str) -> String {
    let body = Recorded::read(name).body;
    let row = body[name].as_array().unwrap().iter().find(|row| row[key] == value).unwrap();
    row[field].as_str().unwrap().to_owned()
}

fn named(name: &str, value: &str) -> Id {
    id(&find(name, "name", value, "id"))
}

fn member(address: &str) -> Id {
    id(&find("members", "address", address, "id"))
}

fn id(text: &str) -> Id {
    Id::try_from(text).unwrap()
}

fn sorted(ids: &[Id]) -> Vec<Id> {
    let mut ids = ids.to_vec();
    ids.sort();
    ids
}

/// A Keystone, and a server that answers as neutron-lbaas did. That server refuses requests that were not recorded with
/// 401, because it knows no token of this Keystone.
struct Replay {
    keystone: FakeOpenStack,
    neutron: FakeOpenStack,
    cloud: Cloud,
    project: String,
}

impl Replay {
    async fn start(options: ClientOptions) -> Self {
        let (keystone, neutron) = (FakeOpenStack::start().await.unwrap(), FakeOpenStack::start().await.unwrap());
        let project = find("loadbalancers", "name", "web", "tenant_id");
        keystone.set(|cloud| {
            cloud.octavia = false;
            cloud.project(&project, "alpha");
        });
        for name in RECORDED {
            neutron.fail(Recorded::read(name).fault());
        }
        let url = neutron.url().replace("/v3", "");
        let credentials = credentials(&keystone.url(), &[("OS_NETWORK_ENDPOINT_OVERRIDE", &url)]);
        let cloud = Cloud::connect(credentials, options).await.unwrap();
        Self { keystone, neutron, cloud, project }
    }

    async fn load_balancing(&self) -> LoadBalancing {
        self.cloud.session(&TokenScope::Project(self.project.clone())).load_balancing().await.unwrap()
    }
}

#[tokio::test]
async fn load_balancers_listeners_and_policies_are_read() {
    let replay = Replay::start(options()).await;
    let load_balancing = replay.load_balancing().await;
    assert_eq!(load_balancing.dialect(), Dialect::NeutronLbaas);
    let list = load_balancing.load_balancers(Some(&replay.project)).await.unwrap();
    assert_eq!((list.rows.len(), &list.unreadable), (2, &vec![]));
    let web = list.rows.iter().find(|row| &*row.name == "web").unwrap();
    let bare = list.rows.iter().find(|row| row.name.is_empty()).unwrap();
    assert_eq!((&web.id, web.project.as_str()), (&named("loadbalancers", "web"), &*replay.project));
    assert_eq!((web.admin_state_up, web.provisioning), (true, ProvisioningStatus::Active));
    assert_eq!(sorted(&web.listeners), sorted(&[named("listeners", "http"), named("listeners", "bare")]));
    assert_eq!(sorted(&web.pools), sorted(&[named("pools", "web"), named("pools", "static")]));
    assert_eq!((bare.listeners.len(), bare.pools.len()), (0, 0));

    let listeners = load_balancing.listeners(None).await.unwrap().rows;
    let listener = |name: &str, protocol, port, default_pool_id| rows::Listener {
        id: named("listeners", name),
        protocol,
        port: Some(port),
        admin_state_up: true,
        provisioning: ProvisioningStatus::Active,
        default_pool_id,
        load_balancers: vec![named("loadbalancers", "web")],
        l7_policies: None,
        restricted: false,
        updated_at: None,
    };
    let http = listener("http", Protocol::Http, 80, Some(named("pools", "web")));
    let tcp = listener("bare", Protocol::Tcp, 8443, None);
    assert!(listeners.len() == 2 && listeners.contains(&http) && listeners.contains(&tcp), "{listeners:?}");

    let policies = load_balancing.l7_policies(None).await.unwrap().rows;
    let policy = rows::L7Policy {
        id: id(&find("l7policies", "action", "REDIRECT_TO_POOL", "id")),
        listener: Some(named("listeners", "http")),
        redirect_pool: Some(named("pools", "static")),
        admin_state_up: true,
        provisioning: ProvisioningStatus::Active,
    };
    assert_eq!(policies, [policy]);
    assert!(replay.keystone.calls().iter().all(|call| !call.contains("/lbaas/")), "they belong to neutronUrl");
}

#[tokio::test]
async fn pools_members_and_statuses_are_read() {
    let replay = Replay::start(options()).await;
    let load_balancing = replay.load_balancing().await;
    let pools = load_balancing.pools(None).await.unwrap().rows;
    let pool = |name: &str| pools.iter().find(|pool| pool.id == named("pools", name)).unwrap();
    let addresses = ["10.30.0.11", "10.30.0.12", "10.30.0.13"];
    assert_eq!(sorted(&pool("web").members), sorted(&addresses.map(member)));
    for (name, monitored) in [("web", true), ("static", false)] {
        let row = pool(name);
        let found = (&row.protocol, row.tls_enabled, row.admin_state_up, row.monitored, row.operating, row.updated_at);
        assert_eq!(found, (&Protocol::Http, false, true, monitored, OperatingStatus::Other, None), "{name}");
        assert_eq!(row.load_balancers, [named("loadbalancers", "web")]);
    }
    assert_eq!(pool("static").members, []);

    let web = named("pools", "web");
    let members = load_balancing.members(web.as_str()).await.unwrap().rows;
    assert_eq!(members.len(), 3);
    for (address, weight, admin_state_up) in
        [("10.30.0.11", 1, true), ("10.30.0.12", 5, true), ("10.30.0.13", 1, false)]
    {
        let row = rows::Member {
            id: member(address),
            address: Address::Ip(address.parse().unwrap()),
            port: Some(8080),
            weight,
            admin_state_up,
            backup: false,
            provisioning: ProvisioningStatus::Active,
            operating: OperatingStatus::Other,
        };
        assert!(members.contains(&row), "{row:?} in {members:?}");
    }

    let statuses = load_balancing.statuses(named("loadbalancers", "web").as_str()).await.unwrap();
    let operating = |id: &Id| statuses.by_id[id.as_str()].operating.as_str();
    assert_eq!(operating(&named("loadbalancers", "web")), "ONLINE");
    assert_eq!(addresses.map(|address| operating(&member(address)).to_owned()), ["ONLINE", "ONLINE", "DISABLED"]);
    assert!(statuses.by_id.values().all(|status| status.provisioning == "ACTIVE"));
}

#[tokio::test]
async fn what_is_gone_is_told_from_what_is_there() {
    let replay = Replay::start(options()).await;
    let load_balancing = replay.load_balancing().await;
    let gone = "00000000-0000-4000-8000-000000000000";
    let web = named("loadbalancers", "web");
    let Lookup::Found(row) = load_balancing.load_balancer(web.as_str()).await.unwrap() else {
        panic!("{web} is there")
    };
    assert_eq!((&row.id, &*row.name, row.listeners.len()), (&web, "web", 2));
    assert_eq!(load_balancing.load_balancer(gone).await.unwrap(), Lookup::Gone);
    let error = load_balancing.members(gone).await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
    assert!(error.to_string().ends_with(&format!("404 pool {gone} could not be found")), "{error}");
}

#[tokio::test]
async fn a_token_that_is_refused_is_renewed_once() {
    let replay = Replay::start(options()).await;
    let load_balancing = replay.load_balancing().await;
    let refusal = Recorded::read("without-a-token");
    replay.neutron.fail(refusal.fault().times(1));
    assert_eq!(load_balancing.load_balancers(None).await.unwrap().rows.len(), 2);
    assert_eq!(replay.cloud.calls().tokens_rejected(), 1);
    replay.neutron.fail(refusal.fault());
    let error = load_balancing.load_balancers(None).await.unwrap_err();
    assert!(matches!(error, Error::Unauthorized { .. }), "{error}");
    assert!(error.to_string().contains("The request you have made requires authentication"), "{error}");
}

/// An unknown marker is answered like the end of a list. Only a request for the row itself distinguishes the two.
#[tokio::test]
async fn an_empty_page_after_a_row_that_is_gone_is_not_the_end() {
    let replay = Replay::start(ClientOptions { page: 1, ..options() }).await;
    let load_balancing = replay.load_balancing().await;
    let (page, nothing) = (Recorded::read("loadbalancers-page"), Recorded::read("loadbalancers-unknown-marker"));
    // The row is requested without a limit.
    replay.neutron.fail(page.fault());
    replay.neutron.fail(nothing.fault().with_marker());
    let list = load_balancing.load_balancers(None).await.unwrap();
    assert_eq!(list.rows.len(), 1, "the row is there, so this was the end");
    replay.neutron.fail(nothing.fault());
    replay.neutron.fail(page.fault().larger_than(0));
    replay.neutron.fail(nothing.fault().with_marker());
    let error = load_balancing.load_balancers(None).await.unwrap_err();
    assert!(matches!(error, Error::InvalidMarker { .. }), "{error}");
}

async fn answer(replay: &Replay, ask: Query) -> Reply {
    let load_balancing = replay.load_balancing().await;
    let text = |error: Error| error.to_string();
    match ask {
        Query::Projects => Reply::Projects(replay.cloud.projects().await.map_err(text)),
        Query::LoadBalancers(whose) => {
            Reply::LoadBalancers(whose, load_balancing.load_balancers(None).await.map_err(text))
        }
        Query::Listeners(whose) => Reply::Listeners(whose, load_balancing.listeners(None).await.map_err(text)),
        Query::Pools(whose) => Reply::Pools(whose, load_balancing.pools(None).await.map_err(text)),
        Query::L7Policies(whose) => Reply::L7Policies(whose, load_balancing.l7_policies(None).await.map_err(text)),
        Query::Members(whose, pool) => {
            let members =
                load_balancing.members(pool.as_str()).await.map_err(|error| MembersError::Failed(text(error)));
            Reply::Members(whose, pool, members)
        }
        Query::LoadBalancer(..) | Query::Listener(..) | Query::Pool(..) | Query::Roles(_) => {
            panic!("nothing has vanished")
        }
    }
}

#[tokio::test]
async fn a_poll_makes_services_of_them() {
    let replay = Replay::start(options()).await;
    let options = gimbal_openstack_source::PollOptions { l7_pools: true, ..Default::default() };
    let mut poll = Poll::new(ListMode::PerProject, options);
    let now = Instant::now();
    poll.begin(now);
    while let Some(ask) = poll.next_query() {
        poll.answer(answer(&replay, ask).await, now);
    }
    assert!(poll.is_done());
    let mut changes = poll.take_changes();
    let outcome = poll.finish(now);
    assert!(outcome.is_complete(), "{outcome:?}");
    assert_eq!(outcome.troubles, []);
    changes.extend(outcome.changes);

    let mut shown = Vec::new();
    for (key, service) in &changes {
        let service = service.as_ref().unwrap();
        let label = &service.header.labels["gimbal.projectcontour.io/load-balancer-name"];
        shown.push(format!("{key} of {label:?}"));
        for port in &service.header.ports {
            let app = port.app_protocol.as_deref().unwrap_or("anything");
            shown.push(format!("  {} {} {app}", port.name, port.port));
        }
        for (ports, endpoint) in service.endpoints() {
            let ready = if endpoint.conditions.ready { "ready" } else { "not ready" };
            let port = &ports.ports()[0];
            shown.push(format!("  {}:{} {} {ready}", endpoint.address, port.port.unwrap(), port.name));
        }
    }
    let (web, bare) = (named("loadbalancers", "web"), named("loadbalancers", ""));
    let (main, nameless) = (format!("alpha/web-{web} of \"web\""), format!("alpha/{bare} of \"\""));
    let redirect = format!("alpha/web-{web}-{} of \"web\"", named("pools", "static"));
    // The third member is switched off, and listener `bare` has no pool.
    let of_main = [
        &*main,
        "  port-80 80 http",
        "  port-8443 8443 anything",
        "  10.30.0.11:8080 port-80 ready",
        "  10.30.0.12:8080 port-80 ready",
    ];
    let mut expected = [of_main.to_vec(), vec![&*redirect, "  port-80 80 http"], vec![&*nameless]];
    // Sorted by key.
    expected.sort();
    assert_eq!(shown, expected.concat());
    let calls = replay.neutron.calls();
    let mut members = calls.iter().filter(|call| call.contains("/members"));
    assert!(members.all(|call| call.contains(named("pools", "web").as_str())), "the other pool has none");
}
