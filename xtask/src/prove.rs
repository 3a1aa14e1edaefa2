//! `cargo xtask prove`: tests at their whole size, which takes longer than a change can wait for. `cargo xtask test`
//! runs a short form of each but those that it leaves out ([`PROVEN`](crate::tests::PROVEN)).

use anyhow::Context as _;

use crate::{demo, shell, tests};

pub mod former;
#[cfg(test)]
mod larger;
mod simulation;

/// A test that runs at a larger size if `GIMBAL_PROVE` is set.
struct Proof {
    name: &'static str,
    what: &'static str,
    place: Place,
    /// Only the tests whose name contains this.
    test: &'static str,
    /// The value of `GIMBAL_PROVE`: the size, or `1` for a test of only one larger size.
    size: &'static str,
}

/// Where a test is.
enum Place {
    /// Among the integration tests, which start Gimbal's programs.
    Integration,
    /// In a package that starts none.
    Package { package: &'static str, file: &'static str },
    /// The demos, which end by themselves and fail if anything is not as expected.
    Demos,
}

/// What each demo is asked for.
const DEMOS: [&[&str]; 3] = [&["--once"], &["--openstack", "--once"], &["--kuryr", "--once"]];

const PROOFS: [Proof; 25] = [
    Proof {
        name: "demos",
        what: "each demo to its end: of two clusters, of an OpenStack cloud as the source, and of the way back with its circle",
        place: Place::Demos,
        test: "",
        size: "1",
    },
    Proof {
        name: "worlds",
        what: "the orders of events in small worlds, state by state",
        place: Place::Package { package: "gimbal-exhaustive", file: "worlds" },
        test: "",
        size: "1",
    },
    Proof {
        name: "guard",
        what: "no more than the share is missing at any moment: the guard by itself, 50,000 histories",
        place: Place::Package { package: "gimbal-guard", file: "guard" },
        test: "invariant::",
        size: "50000",
    },
    Proof {
        name: "guard-writer",
        what: "the same of the writer's whole state, 5,000 histories",
        place: Place::Package { package: "gimbal-reconcile", file: "model" },
        test: "missing::",
        size: "5000",
    },
    Proof {
        name: "writer",
        what: "the Gimbal cluster ends as the sources are, after 3,000 histories of each kind",
        place: Place::Package { package: "gimbal-reconcile", file: "model" },
        test: "ends_as",
        size: "3000",
    },
    Proof {
        name: "any-cloud",
        what: "nothing goes unproven from a cloud that fails in any way, 50,000 clouds",
        place: Place::Package { package: "gimbal-openstack-source", file: "it" },
        test: "any_cloud::",
        size: "50000",
    },
    Proof {
        name: "policies",
        what: "groups let through what NetworkPolicies say, in any order of arrival, 20,000 histories",
        place: Place::Package { package: "gimbal-kuryr-isolation", file: "isolation" },
        test: "any_order::",
        size: "20000",
    },
    Proof {
        name: "cyclonus",
        what: "groups let through what cyclonus says of 500 clusters with any policies, and of all of its own cases",
        place: Place::Package { package: "gimbal-cyclonus", file: "verdicts" },
        test: "",
        size: "500",
    },
    Proof {
        name: "back-at-once",
        what: "a writer and a source that come back, ten rounds of each",
        place: Place::Integration,
        test: "source::after_an_outage_what_changed_is_there_within_two_seconds",
        size: "10",
    },
    Proof {
        name: "leaks",
        what: "nothing is left in OpenStack after 1,000 random operations on Services, Ingresses and Secrets, with kills, lost answers, and deletions by hand",
        place: Place::Integration,
        test: "openstack_leaks::",
        size: "1000",
    },
    Proof {
        name: "kills",
        what: "openstack-writer, the controller and both killed at every step of the life of a Service, and of an Ingress with TLS",
        place: Place::Integration,
        test: "kills::killed_at_every_step",
        size: "1",
    },
    Proof {
        name: "edits",
        what: "each request is led as before or as after the edit in progress, while Ingresses are edited at random, 200 times",
        place: Place::Integration,
        test: "openstack_way_back::edits::",
        size: "200",
    },
    Proof {
        name: "conformance",
        what: "the features of Kubernetes' conformance tests for Ingress controllers, against a real data plane",
        place: Place::Integration,
        test: "openstack_way_back::conformance::",
        size: "1",
    },
    Proof {
        name: "many-routes",
        what: "an Ingress step by step, and many at once, for which another router is made",
        place: Place::Integration,
        test: "openstack_way_back::ingress::",
        size: "1",
    },
    Proof {
        name: "members",
        what: "a load balancer of a thousand members",
        place: Place::Integration,
        test: "openstack_writer::a_thousand_members",
        size: "1",
    },
    Proof {
        name: "polls",
        what: "an idle poll of a cloud costs the discoverer a call a page",
        place: Place::Integration,
        test: "openstack_scale::an_idle",
        size: "1",
    },
    Proof {
        name: "ports",
        what: "a load balancer of fifty ports",
        place: Place::Integration,
        test: "openstack_writer::fifty_ports",
        size: "1",
    },
    Proof {
        name: "traffic",
        what: "every request is answered while a load balancer changes, fails over, or is replaced",
        place: Place::Integration,
        test: "openstack_traffic::",
        size: "1",
    },
    Proof {
        name: "changes",
        what: "what is made for Services: lost answers, a quota, orphans, and openstack-writer killed in the middle",
        place: Place::Integration,
        test: "openstack_writer::nothing_is_lost",
        size: "1",
    },
    Proof {
        name: "routes",
        what: "policies, rules and certificates of a router: lost answers, what people do by hand, and a quota",
        place: Place::Integration,
        test: "openstack_writer::routes_are_not_lost",
        size: "1",
    },
    Proof {
        name: "failures",
        what: "how OpenStack fails: PENDING for ever, ERROR, 500 and 409, and a storm of 409 for a minute",
        place: Place::Integration,
        test: "openstack_writer::failures_of",
        size: "1",
    },
    Proof {
        name: UPGRADES,
        what: "one of writer and discoverer a release older than the other, up and down: nothing is written, changes arrive, and no request through Contour and Envoy fails",
        place: Place::Integration,
        test: "upgrades::",
        size: "1",
    },
    Proof {
        name: "page",
        what: "the status page in a real browser: by keyboard, for a screen reader, in the dark, and on a phone",
        place: Place::Integration,
        test: "page_in_browser::",
        size: "1",
    },
    Proof {
        name: ENVOY,
        what: "requests through Contour and Envoy: none fails whatever is killed, away, or replaced by another release, five times; and what Contour makes of endpoints and ports",
        place: Place::Integration,
        test: "through_envoy::",
        size: "5",
    },
    Proof {
        name: "endurance",
        what: "the Gimbal cluster's API server in every kind of trouble for a minute each, with twenty agents",
        place: Place::Integration,
        test: "endurance::",
        size: "1",
    },
];

/// Those that need the programs of the release before this one.
const UPGRADES: &str = "upgrades";
const ENVOY: &str = "envoy";

#[derive(clap::Args)]
pub struct Args {
    /// Which; without one, what there is.
    name: Option<String>,
    #[command(flatten)]
    simulation: simulation::Args,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let Some(name) = &args.name else {
        for proof in &PROOFS {
            println!("{:<12} {}", proof.name, proof.what);
        }
        println!("{:<12} {}", simulation::NAME, simulation::WHAT);
        return Ok(());
    };
    if name == simulation::NAME {
        return simulation::run(&args.simulation);
    }
    anyhow::ensure!(args.simulation.is_unset(), "only `{}` takes these options", simulation::NAME);
    let proof = PROOFS.iter().find(|proof| proof.name == name).with_context(|| {
        let names: Vec<&str> = PROOFS.iter().map(|proof| proof.name).chain([simulation::NAME]).collect();
        format!("nothing to prove is called {name}: choose one of {}", names.join(", "))
    })?;
    match proof.place {
        Place::Demos => DEMOS.iter().try_for_each(|args| demo::run(&demo::Args::new(args))),
        Place::Integration => {
            let mut command = tests::integration()?;
            command.args(["--nocapture", proof.test]).env("GIMBAL_PROVE", proof.size);
            if proof.name == UPGRADES || proof.name == ENVOY {
                command.env("GIMBAL_FORMER_BIN_DIR", former::programs()?);
            }
            shell::run(command)
        }
        Place::Package { package, file } => {
            // It is bound by CPU time.
            let mut command = shell::cargo(&["test", "--profile", "quick", "--package", package, "--test", file]);
            command.args(["--", "--nocapture", proof.test]).env("GIMBAL_PROVE", proof.size);
            shell::run(command)
        }
    }
}

#[cfg(test)]
mod of_proofs {
    use super::*;

    #[test]
    fn what_a_test_run_leaves_out_can_be_proven() {
        for name in crate::tests::PROVEN {
            assert!(PROOFS.iter().any(|proof| !proof.test.is_empty() && name.contains(proof.test)), "{name}");
        }
    }
}
