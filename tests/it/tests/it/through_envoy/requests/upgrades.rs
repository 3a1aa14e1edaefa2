//! Programs are replaced by those of the former release, and back, under requests: none fails, and nothing is written that no change of
//! the source asks for.

use std::path::Path;

use gimbal_tests::expect_metric;

use super::{Clients, Running, SECOND, SOON, is_alone};
use crate::upgrades::{Release, former};

#[derive(Debug, Clone, Copy)]
enum Replaced {
    Discoverer,
    Writers,
}

/// Every pair of releases is met from both sides, and this one is the last.
const STEPS: [(Replaced, Release); 8] = [
    (Replaced::Discoverer, Release::Former),
    (Replaced::Writers, Release::Former),
    (Replaced::Discoverer, Release::This),
    (Replaced::Discoverer, Release::Former),
    (Replaced::Writers, Release::This),
    (Replaced::Writers, Release::Former),
    (Replaced::Discoverer, Release::This),
    (Replaced::Writers, Release::This),
];

impl Running {
    fn take(&mut self, release: Release, former: &Path) {
        self.stage.scene.take_programs_from((release == Release::Former).then(|| former.to_owned()));
    }

    async fn replace(&mut self, replaced: Replaced) {
        match replaced {
            Replaced::Discoverer => {
                self.discoverer.take().unwrap().process.terminate(SOON).await.unwrap();
                self.discover().await;
            }
            // One after the other, as a rollout does: the one that does not lead first, so that the lease is handed on once.
            Replaced::Writers => {
                for which in [1, 0] {
                    self.writers[which].take().unwrap().process.terminate(SOON).await.unwrap();
                    expect_metric(self.writer(1 - which).admin_port, "gimbal_writer_leading", "", 1.0).await.unwrap();
                    self.write(which).await;
                }
                // The first one leads again, as each step begins.
                self.writers[1].take().unwrap().process.terminate(SOON).await.unwrap();
                expect_metric(self.writer(0).admin_port, "gimbal_writer_leading", "", 1.0).await.unwrap();
                self.write(1).await;
            }
        }
    }

    /// What either writer has written since `mark`.
    async fn written(&self, mark: usize) -> Vec<String> {
        let entries = self.stage.scene.gimbal.audit_since(mark).await.unwrap();
        let of_writers = |user: &str| user == "writer" || user == SECOND;
        let writes = entries.iter().filter(|entry| entry.is_publication() && of_writers(&entry.user));
        writes.map(|entry| format!("{} {} {}", entry.verb, entry.resource, entry.name)).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn none_fails_between_releases() {
    if !is_alone("requests::upgrades::none_fails_between_releases") {
        return;
    }
    let former = former();
    let mut running = Running::start().await;
    let clients = Clients::start(&running.stage.client);
    clients.more().await;
    for (replaced, release) in STEPS {
        let mark = running.stage.scene.gimbal.audit_mark().await.unwrap();
        running.take(release, &former);
        running.replace(replaced).await;
        clients.more().await;
        assert_eq!(running.written(mark).await, [] as [String; 0], "{replaced:?} of {release:?}");
        running.works().await;
        let failed = clients.traffic().failed;
        assert_eq!(failed, [] as [String; 0], "{replaced:?} of {release:?}\n{}", running.stage.contour.logs());
    }
    println!("{} requests, none failed", clients.traffic().answered.values().sum::<u64>());
}
