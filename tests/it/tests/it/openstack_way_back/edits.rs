//! Requests while Ingresses are edited at random: each is answered as before the edit in progress, or as after it.
//! `GIMBAL_PROVE` sets the number of edits, `GIMBAL_WORLD` the seed.

mod state;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::future::join_all;
use gimbal_octavia_sim::Dice;
use gimbal_testkit::eventually;
use gimbal_testkit::openstack::{Options, Reply};
use gimbal_tests::{INGRESSES, WayBack};
use serde_json::Value;
use tokio::time::MissedTickBehavior;

use state::{SECURE, SERVICES, STABLE, State, WATCHED, Watched};

const EDITS: u64 = 8;
const CONTROLLER: [&str; 2] = ["--cluster-ip-services=false", "--ingress"];
/// The longest time that an edit may take: some need a dozen changes of the load balancer, one after the other.
const WITHIN: Duration = Duration::from_secs(240);
/// How often each host gets a request.
const EVERY: Duration = Duration::from_millis(100);

/// What has been asked for so far, and what is served.
struct Course<'a> {
    stage: &'a WayBack,
    router: String,
    /// The certificate of the host that stays as it is.
    certificate: String,
    /// The state in the beginning, and after each edit so far.
    states: RefCell<Vec<State>>,
    /// The last one that is served as a whole.
    served: Cell<usize>,
    is_over: Cell<bool>,
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_led_as_before_or_as_after_each_edit() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let (edits, seed) = (number("GIMBAL_PROVE").unwrap_or(EDITS), number("GIMBAL_WORLD").unwrap_or(1));
    let options = Options { data_plane: true, key_manager: true, ..Options::with_checked_tokens() };
    let mut stage = WayBack::build_for_ingresses_on(options).await.unwrap();
    stage.make_ingress_class().await.unwrap();
    for (name, address) in SERVICES {
        stage.make_backend(name, &[(name, address)]).await.unwrap();
    }
    let certificate = stage.make_certificate("stable", &[STABLE]).await.unwrap();
    stage.make_certificate("secure", &[SECURE]).await.unwrap();
    let first = State::first();
    for ingress in first.manifests().values() {
        stage.cluster.admin().post(INGRESSES, ingress).await.unwrap();
    }
    stage.start_writer(&[]).await.unwrap();
    stage.start_controller(&CONTROLLER).await.unwrap();
    let router = router_address(&stage).await;
    let (states, served) = (RefCell::new(vec![first]), Cell::new(0));
    let course = Course { stage: &stage, router, certificate, states, served, is_over: Cell::new(false) };
    course.until_served().await;
    let begin = Instant::now();
    let watching = join_all(WATCHED.iter().map(|watched| course.watch(watched)));
    let (done, counts) = tokio::join!(course.edit(edits, Dice::new(seed)), watching);
    let count = |is_https| {
        let of = WATCHED.iter().zip(&counts).filter(|(watched, _)| watched.is_https == is_https);
        of.map(|(_, count)| count).sum::<u64>()
    };
    println!("seed {seed}: {edits} edits in {:?}: {done:?}", begin.elapsed());
    println!("{} requests over HTTP and {} over HTTPS, none answered wrongly", count(false), count(true));
}

async fn router_address(stage: &WayBack) -> String {
    let result = eventually("the Ingress has an address", WITHIN, async || {
        let ingress = stage.cluster.admin().get(&format!("{INGRESSES}/stable")).await?;
        let address = ingress["status"]["loadBalancer"]["ingress"][0]["ip"].as_str();
        address.map(str::to_owned).ok_or_else(|| anyhow::anyhow!("{ingress}"))
    });
    result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()))
}

impl Course<'_> {
    /// Edits Ingresses, each time when what was asked for before is served. Returns how often it did what.
    async fn edit(&self, edits: u64, mut dice: Dice) -> BTreeMap<&'static str, u64> {
        let mut done = BTreeMap::new();
        for number in 1..=edits {
            let before = self.states.borrow()[self.served.get()].clone();
            let (what, after) = before.edited(&mut dice, number);
            *done.entry(what).or_default() += 1;
            self.states.borrow_mut().push(after.clone());
            self.apply(&before.manifests(), &after.manifests()).await;
            self.until_served().await;
        }
        self.is_over.set(true);
        done
    }

    async fn apply(&self, before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) {
        let api = self.stage.cluster.admin();
        for name in before.keys().filter(|name| !after.contains_key(*name)) {
            api.delete(&format!("{INGRESSES}/{name}")).await.unwrap();
        }
        for (name, ingress) in after {
            match before.get(name) {
                None => drop(api.post(INGRESSES, ingress).await.unwrap()),
                Some(same) if same == ingress => {}
                Some(_) => drop(api.patch(&format!("{INGRESSES}/{name}"), ingress).await.unwrap()),
            }
        }
    }

    /// Waits until everything is answered as the latest state says.
    async fn until_served(&self) {
        let latest = self.states.borrow().len() - 1;
        let state = self.states.borrow()[latest].clone();
        let result = eventually("all is served", WITHIN, async || {
            for watched in &WATCHED {
                for path in watched.paths {
                    let (answer, wanted) = (self.answer(watched, path).await?, state.answer(watched, path));
                    anyhow::ensure!(answer == wanted, "{watched}{path} is answered by {answer} and not by {wanted}");
                }
            }
            Ok::<_, anyhow::Error>(())
        });
        result.await.unwrap_or_else(|error| panic!("{error:#}\n{}{}", self.story(), self.stage.logs()));
        self.served.set(latest);
    }

    /// Sends requests until the edits are over. Returns how many.
    async fn watch(&self, watched: &Watched) -> u64 {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut count = 0;
        for path in watched.paths.iter().cycle() {
            ticks.tick().await;
            if self.is_over.get() {
                break;
            }
            let from = self.served.get();
            let answer = self.answer(watched, path).await;
            let answer = answer.unwrap_or_else(|error| panic!("{watched}{path}: {error:#}\n{}", self.story()));
            let states = self.states.borrow();
            let allowed: Vec<String> = states[from..].iter().map(|state| state.answer(watched, path)).collect();
            assert!(
                allowed.contains(&answer),
                "{watched}{path} is answered by {answer} and not by {allowed:?}\n{}{}",
                self.story(),
                self.stage.logs()
            );
            count += 1;
        }
        count
    }

    /// Returns the member's name with the path, else the status and where it leads to. Who is led to HTTPS is answered there.
    async fn answer(&self, watched: &Watched, path: &str) -> anyhow::Result<String> {
        let plane = self.stage.plane()?;
        let over_https = async || plane.request_tls(&self.router, 443, watched.host, path).await;
        if watched.is_https {
            let reply = over_https().await?;
            let is_kept = watched.host != STABLE || reply.certificate.as_ref() == Some(&self.certificate);
            anyhow::ensure!(is_kept, "another certificate is served: {reply:?}");
            return Ok(shown(reply));
        }
        let reply = plane.request(&self.router, 80, Some(watched.host), path).await?;
        if reply.location.is_some() {
            let there = over_https().await?;
            anyhow::ensure!(there.status == 200, "{reply:?} leads to {there:?}");
        }
        Ok(shown(reply))
    }

    /// What was asked for last, and before that.
    fn story(&self) -> String {
        let states = self.states.borrow();
        states[states.len().saturating_sub(2)..].iter().map(|state| format!("{state}\n")).collect()
    }
}

fn shown(Reply { status, body, location, .. }: Reply) -> String {
    match (status, location) {
        (200, _) => body,
        (_, Some(to)) => format!("{status} {to}"),
        (_, None) => status.to_string(),
    }
}
