//! A cluster of an openstack-writer.

use gimbal_kuryr_wire::pb;

use super::result::CheckResult;
use super::{facts, versions};
use crate::output::age;

/// Checks a cluster. `version` is that of the writer, if it says so.
pub fn results(cluster: &pb::Cluster, version: Option<&str>) -> Vec<CheckResult> {
    let name = &*cluster.name;
    let mut results = Vec::new();
    if let Some(removal) = &cluster.decommission {
        let found = format!("it is being removed: {} owners still have something", removal.owners);
        results.push(CheckResult::warn("cluster.admitted", name, found, ""));
    }
    if cluster.connected {
        results.push(CheckResult::ok("cluster.connected", name, cluster.agent_version.clone()));
        results.push(match version {
            Some(version) => versions::result("cluster.version", name, version, "the writer", &cluster.agent_version),
            None => CheckResult::skip("cluster.version", name, "the writer's own version is not known"),
        });
        results.push(match cluster.clock_ahead_ms {
            Some(ahead) => facts::clock("cluster.clock", name, ahead),
            None => CheckResult::skip("cluster.clock", name, "its controller does not say"),
        });
        results.push(if cluster.complete {
            CheckResult::ok("cluster.complete", name, "")
        } else {
            CheckResult::warn("cluster.complete", name, "its snapshot has not ended yet", "wait, or --wait 60")
        });
    } else {
        let hint = "is its kuryr-controller running, and what does its log say? Nothing is changed without it";
        results.push(CheckResult::fail("cluster.connected", name, "no controller is connected", hint));
        let skip = |id| CheckResult::skip(id, name, "no controller is connected");
        results.extend(["cluster.version", "cluster.clock", "cluster.complete"].map(skip));
    }
    results.push(match cluster.held.first() {
        None => CheckResult::ok("cluster.held", name, ""),
        Some(held) => {
            let hint = format!("is it right? Then gimbalctl lb approve {} --cluster {name}", held.id);
            CheckResult::fail(
                "cluster.held",
                name,
                format!("held for {}: {}", age(Some(held.held_ms)), held.message),
                hint,
            )
        }
    });
    let list = format!("gimbalctl lb list --cluster {name} --trouble says which and why");
    results.push(match cluster.rejected {
        0 => CheckResult::ok("cluster.rejected", name, ""),
        count => {
            CheckResult::warn("cluster.rejected", name, format!("{count} load balancers are not tried"), list.clone())
        }
    });
    results.push(match cluster.pending {
        0 => CheckResult::ok("cluster.served", name, ""),
        count => CheckResult::warn(
            "cluster.served",
            name,
            format!("{count} load balancers are not as they are wanted"),
            list,
        ),
    });
    results.push(match cluster.orphans {
        0 => CheckResult::ok("cluster.orphans", name, ""),
        count => {
            let hint =
                "they are removed after --orphan-grace, unless the guard holds them or the cluster is in quarantine";
            CheckResult::warn(
                "cluster.orphans",
                name,
                format!("{count} objects have its mark, and nothing wants them"),
                hint,
            )
        }
    });
    results.push(if cluster.trouble.is_empty() {
        CheckResult::ok("cluster.trouble", name, "")
    } else {
        let hint = "docs/way-back.md has what to do when it is stuck";
        CheckResult::fail("cluster.trouble", name, cluster.trouble.clone(), hint)
    });
    results
}

#[cfg(test)]
mod tests {
    use super::super::result::CheckLevel;
    use super::*;

    #[test]
    fn each_trouble_has_a_check_of_its_own() {
        type Change = fn(&mut pb::Cluster);
        let cases: [(Change, &[(&str, CheckLevel)]); 11] = [
            (|_| (), &[]),
            (
                |one| one.connected = false,
                &[
                    ("cluster.connected", CheckLevel::Fail),
                    ("cluster.version", CheckLevel::Skip),
                    ("cluster.clock", CheckLevel::Skip),
                    ("cluster.complete", CheckLevel::Skip),
                ],
            ),
            (
                |one| one.agent_version = "gimbal-kuryr-controller/0.2.0".into(),
                &[("cluster.version", CheckLevel::Warn)],
            ),
            (|one| one.clock_ahead_ms = Some(-60_000), &[("cluster.clock", CheckLevel::Warn)]),
            (|one| one.clock_ahead_ms = None, &[("cluster.clock", CheckLevel::Skip)]),
            (|one| one.orphans = 3, &[("cluster.orphans", CheckLevel::Warn)]),
            (|one| one.complete = false, &[("cluster.complete", CheckLevel::Warn)]),
            (|one| one.held = vec![pb::HeldRemoval::default()], &[("cluster.held", CheckLevel::Fail)]),
            (
                |one| (one.rejected, one.pending) = (1, 1),
                &[("cluster.rejected", CheckLevel::Warn), ("cluster.served", CheckLevel::Warn)],
            ),
            (|one| one.trouble = "the cloud was not read yet".into(), &[("cluster.trouble", CheckLevel::Fail)]),
            (
                |one| one.decommission = Some(pb::DecommissionProgress::default()),
                &[("cluster.admitted", CheckLevel::Warn)],
            ),
        ];
        for (change, expected) in cases {
            let mut one = pb::Cluster {
                name: "prod1".into(),
                connected: true,
                complete: true,
                agent_version: "gimbal-kuryr-controller/0.1.3".into(),
                clock_ahead_ms: Some(-20),
                ..Default::default()
            };
            change(&mut one);
            let found: Vec<_> = results(&one, Some("0.1.0"))
                .into_iter()
                .filter(|one| one.level != CheckLevel::Ok)
                .map(|one| (one.id, one.level))
                .collect();
            assert_eq!(found, expected);
        }
    }
}
