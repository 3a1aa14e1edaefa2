//! The source against a scripted cloud, without a writer.

mod plaintext;

use std::path::Path;

use clap::Parser as _;
use gimbal_discoverer::{Coverage, SourceStatus as _};
use gimbal_testkit::fake_openstack::{FakeCloud, FakeOpenStack};

use super::*;

/// Longer than anything in these tests takes.
const LONG: Duration = Duration::from_secs(20);
const TOKENS: &str = "POST /v3/auth/tokens";
const CREDENTIAL: [(&str, &str); 2] =
    [("applicationCredentialId", "fake"), ("applicationCredentialSecret", "fake-secret")];

struct Run {
    fake: FakeOpenStack,
    dir: tempfile::TempDir,
    source: CloudSource,
    polls: usize,
}

fn balancer(cloud: &mut FakeCloud, project: &str, number: usize) {
    let (balancer, pool) = (format!("lb{number}"), format!("pool{number}"));
    cloud.load_balancer(project, &balancer, "web");
    cloud.pool(&balancer, &pool);
    cloud.listener(&balancer, &format!("listener{number}"), "HTTP", 80, Some(&pool));
    cloud.member(&pool, &format!("member{number}"), &format!("10.1.0.{number}"), 8080);
}

/// Deletes a load balancer with its listener and pool.
fn delete(cloud: &mut FakeCloud, number: usize) {
    for kind in ["lb", "listener", "pool"] {
        cloud.remove(&format!("{kind}{number}"));
    }
}

fn write(dir: &Path, keys: &[(&str, &str)]) {
    for (key, value) in keys {
        std::fs::write(dir.join(key), value).unwrap();
    }
}

impl Run {
    /// Starts with two projects, of which the first has a load balancer. The user sees all projects.
    async fn start(set: impl FnOnce(&mut FakeCloud), keys: &[(&str, &str)], flags: &[&str]) -> Self {
        Self::with(FakeOpenStack::start().await.unwrap(), set, keys, flags)
    }

    fn with(fake: FakeOpenStack, set: impl FnOnce(&mut FakeCloud), keys: &[(&str, &str)], flags: &[&str]) -> Self {
        fake.set(|cloud| {
            cloud.global = true;
            cloud.project("p1", "alpha");
            cloud.project("p2", "beta");
            balancer(cloud, "p1", 1);
            set(cloud);
        });
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &[("keystoneUrl", &fake.url())]);
        match keys {
            [] => fake.write_credentials(dir.path()).unwrap(),
            keys => write(dir.path(), keys),
        }
        let path = dir.path().display().to_string();
        let common = [
            "x",
            "--backend-name",
            "b",
            "--credentials",
            &path,
            "--poll-interval",
            "20ms",
            "--projects-interval",
            "0s",
        ];
        let args = Args::try_parse_from(common.iter().chain(flags)).unwrap();
        let source = CloudSource::new(&args, Pace::of(&args), CloudSourceMetrics::default()).unwrap();
        Self { fake, dir, source, polls: 0 }
    }

    /// Runs until `is_so` returns true at the end of a poll, or of an attempt to enter.
    async fn until(&mut self, what: &str, mut is_so: impl FnMut(&CloudSource, &FakeOpenStack) -> bool) {
        let begun = Instant::now();
        loop {
            let event = timeout(LONG, self.source.event()).await.unwrap();
            self.source.apply(event, Instant::now());
            self.source.drain(Instant::now());
            if matches!(self.source.stage, Activity::Resting(_)) {
                self.polls += 1;
                if is_so(&self.source, &self.fake) {
                    return;
                }
            }
            let (trouble, mode) =
                (self.source.state.trouble(), self.source.connection.as_ref().map(|connection| connection.terms.mode));
            assert!(begun.elapsed() < LONG, "{what}: {trouble:?} in mode {mode:?}");
        }
    }

    async fn polls(&mut self, count: usize) {
        let until = self.polls + count;
        while self.polls < until {
            self.until("a poll ends", |_, _| true).await;
        }
    }

    async fn complete(&mut self, services: usize) {
        self.until(&format!("{services} services"), |source, _| {
            source.state.coverage() == Coverage::Complete && source.state.services() == services
        })
        .await;
    }

    fn mode(&self) -> ListMode {
        self.source.connection.as_ref().unwrap().terms.mode
    }
}

#[tokio::test]
async fn the_token_that_decided_is_used_on() {
    for (set, tokens) in [
        // One token for the password, and one for the project.
        (Box::new(|_: &mut FakeCloud| {}) as Box<dyn FnOnce(&mut FakeCloud)>, 2),
        (Box::new(|cloud: &mut FakeCloud| balancer(cloud, "p2", 2)), 2),
    ] {
        let mut run = Run::start(set, &[], &["--projects", "alpha"]).await;
        run.complete(1).await;
        assert_eq!(run.fake.count(TOKENS), tokens, "{:?}", run.mode());
    }
}

/// No token of another scope can be made from an application credential's token.
#[tokio::test]
async fn an_application_credential_goes_over_to_bulk() {
    let mut run = Run::start(|_| {}, &CREDENTIAL, &[]).await;
    run.complete(1).await;
    assert_eq!(run.mode(), ListMode::PerProject);
    run.fake.set(|cloud| balancer(cloud, "p2", 2));
    run.complete(2).await;
    assert_eq!(run.mode(), ListMode::Bulk);
}

/// With a policy for one kind of object, each poll shows other projects' objects, but never proves that the token sees
/// all.
#[tokio::test]
async fn what_cannot_be_decided_later_is_no_trouble() {
    let restrict = |cloud: &mut FakeCloud| {
        cloud.restricted.insert("pools");
    };
    let mut run = Run::start(restrict, &[], &[]).await;
    run.complete(1).await;
    run.fake.set(|cloud| balancer(cloud, "p2", 2));
    // Each decision takes two tokens; the third is that of p2.
    let before = run.fake.count(TOKENS) + 1;
    run.until("it was looked into three times", |source, fake| {
        assert_eq!(source.state.coverage(), Coverage::Complete);
        fake.count(TOKENS) >= before + 6
    })
    .await;
    assert_eq!((run.source.state.services(), run.mode()), (2, ListMode::PerProject));
    run.fake.set(|cloud| delete(cloud, 2));
    run.complete(1).await;
}

/// A role that is not needed is removed; a week later a project's last load balancer is deleted.
#[tokio::test]
async fn a_role_that_is_not_needed_fails_no_poll() {
    let set = |cloud: &mut FakeCloud| {
        cloud.roles.insert("admin");
        cloud.project("p3", "gamma");
        balancer(cloud, "p2", 2);
        balancer(cloud, "p3", 3);
    };
    let mut run = Run::start(set, &[], &[]).await;
    run.complete(3).await;
    assert_eq!(run.mode(), ListMode::Bulk);
    run.fake.set(|cloud| {
        cloud.roles.clear();
        delete(cloud, 2);
    });
    run.complete(2).await;
    run.until("the roles of now are known", |source, _| {
        source.connection.as_ref().is_some_and(|connection| !connection.terms.roles.contains("admin"))
    })
    .await;
    assert_eq!(run.source.state.coverage(), Coverage::Complete);
    // The roles that the token had are still compared.
    run.fake.set(|cloud| cloud.global = false);
    run.until("a role is missed", |source, _| {
        source.state.trouble().is_some_and(|text| text.contains("role was lost"))
    })
    .await;
    run.polls(6).await;
    assert_eq!((run.source.state.services(), run.mode()), (2, ListMode::Bulk));
    run.fake.set(|cloud| cloud.global = true);
    run.complete(2).await;
}

/// With a token that sees all, each project's unfiltered lists would be those of the whole cloud.
#[tokio::test]
async fn a_project_is_asked_for_by_itself() {
    let mut run = Run::start(|cloud| balancer(cloud, "p2", 2), &[], &["--mode", "per-project", "--l7-pools"]).await;
    run.complete(2).await;
    let of = |kind: &str| format!("GET /v2/lbaas/{kind}?");
    let calls = run.fake.calls();
    let lists: Vec<&String> =
        calls.iter().filter(|call| call.starts_with(&of("listeners")) || call.starts_with(&of("pools"))).collect();
    assert!(lists.len() >= 4 && lists.iter().all(|call| call.contains("project_id=p")), "{lists:#?}");
}

#[tokio::test]
async fn a_secret_may_change_from_one_kind_to_the_other() {
    let mut run = Run::start(|cloud| balancer(cloud, "p2", 2), &[], &[]).await;
    run.complete(2).await;
    for (secret, gone) in [("second", ["username", "password"]), ("third", CREDENTIAL.map(|key| key.0))] {
        run.fake.set(|cloud| {
            cloud.password = secret.to_owned();
            cloud.revoke_tokens();
        });
        run.until("they are refused", |source, _| source.refused.is_some()).await;
        gone.iter().for_each(|key| std::fs::remove_file(run.dir.path().join(key)).unwrap());
        match gone[0] {
            "username" => write(run.dir.path(), &[CREDENTIAL[0], ("applicationCredentialSecret", secret)]),
            _ => write(run.dir.path(), &[("username", "fake"), ("password", secret)]),
        }
        run.fake.set(|cloud| balancer(cloud, "p2", if secret == "second" { 3 } else { 4 }));
        run.complete(if secret == "second" { 3 } else { 4 }).await;
        assert_eq!(run.mode(), ListMode::Bulk);
    }
}

/// A token scoped to the system does not prove that it sees each kind of object.
#[tokio::test]
async fn a_token_of_the_system_is_tried_like_any_other() {
    let keys = [("username", "fake"), ("password", "fake-secret"), ("systemScope", "all")];
    let restrict = |cloud: &mut FakeCloud| {
        cloud.restricted.insert("pools");
    };
    let mut run = Run::start(restrict, &keys, &[]).await;
    run.until("it is refused", |source, _| {
        source.state.trouble().is_some_and(|text| text.contains("list of pools shows none"))
    })
    .await;
    run.fake.set(|cloud| cloud.restricted.clear());
    run.complete(1).await;
    assert_eq!(run.mode(), ListMode::Bulk);
}

/// While Octavia is missing in the catalog, an old neutron-lbaas plug-in answers with empty lists: that is another
/// source.
#[tokio::test]
async fn neutron_lbaas_is_another_source() {
    for (octavia, says) in [(true, false), (false, true)] {
        let mut run = Run::start(|cloud| cloud.octavia = octavia, &[], &[]).await;
        assert_eq!(run.source.state.incarnation(), None, "not before it is known who serves load balancing");
        run.complete(1).await;
        let incarnation = run.source.state.incarnation().unwrap();
        assert!(incarnation.starts_with(&run.fake.url()), "{incarnation}");
        assert_eq!(incarnation.ends_with("neutron-lbaas"), says, "{incarnation}");
    }
}
