//! All agents connect at the same time: counts how much is sent. `--nocapture` prints the figures; docs/scale.md
//! lists them.

use std::time::Duration;

use gimbal_session::{AgentMessage, Credit};
use gimbal_simulation::{Ending, Plan, Report, run};
use gimbal_wire::{encoded_len, pb};

const BACKENDS: usize = 255;

/// Runs an ending after a quiet time without troubles, with the credit of the real writer.
fn at_once(ending: Ending) -> Report {
    let plan = Plan {
        troubles: Vec::new(),
        storm: Duration::from_secs(10),
        ending,
        credit: Credit { changes: 1000, bytes: 8 << 20 },
        bytes: |message: &AgentMessage| encoded_len(&pb::SyncRequest::from(message.clone())),
        ..Plan::new(1, BACKENDS)
    };
    let report = run(&plan).unwrap();
    println!("{ending:?}: {} messages and events waited at most; {:#?}", report.most_mail, report.said_at_the_end);
    report
}

#[test]
fn after_a_restart_of_the_writer_each_backend_is_sent_once() {
    let report = at_once(Ending::RestartWriters);
    let said = report.said_at_the_end;
    // One of the two writers refuses the agents that dial it first.
    assert!(said.hellos <= 2 * BACKENDS as u64, "{said:?}");
    assert_eq!(said.snapshots, BACKENDS as u64, "one snapshot each, and none twice");
    assert_eq!(said.frames, 3 * said.snapshots, "begin, one chunk, end: nothing is said again");
}

#[test]
fn a_mere_reconnect_sends_no_data() {
    let said = at_once(Ending::Reconnect).said_at_the_end;
    assert_eq!((said.snapshots, said.frames), (0, 0));
    let (messages, most) = (said.hellos + said.heartbeats, said.most_bytes_under_way);
    assert!(said.bytes <= 200 * messages && most <= 400 * BACKENDS as u64, "{said:?}");
}
