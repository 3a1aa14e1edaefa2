//! What random policies found: a name that several Services want, or one that moves, while policies change. Each was a
//! failure of `ends_as_the_policies_say`, shrunk.

use super::Op;
use super::policy::PolicyOp::{self, Configure, Other};
use super::policy::ends_as_its_policies_say;
use super::server::Luck;

fn set(agent: usize, key: u8, hosts: &[u8]) -> PolicyOp {
    Other(Op::Set { agent, key, label: 0, ports: 0, hosts: hosts.to_vec() })
}

#[test]
fn case_a() {
    ends_as_its_policies_say(vec![
        Other(Op::Connect(0)),
        set(0, 3, &[0]),
        Configure(0, 3),
        Configure(1, 5),
        Configure(1, 5),
        set(1, 2, &[0]),
        Other(Op::Connect(1)),
        Other(Op::Run(5)),
        Configure(0, 0),
        Other(Op::HandEdit(135)),
        set(0, 1, &[]),
        Configure(0, 0),
        Configure(1, 1),
        Configure(0, 2),
        set(0, 0, &[]),
        Other(Op::Run(1)),
        Other(Op::Speak(0)),
        Configure(0, 4),
    ]);
}

#[test]
fn case_b() {
    ends_as_its_policies_say(vec![
        set(0, 0, &[0]),
        Configure(0, 0),
        Other(Op::Connect(0)),
        Configure(0, 4),
        Other(Op::Run(4)),
        Configure(0, 5),
        Other(Op::StartJob),
        set(0, 1, &[]),
        Other(Op::FinishJob(Luck::AnswerLost)),
        Configure(0, 5),
        Other(Op::Speak(0)),
    ]);
}

#[test]
fn case_c() {
    ends_as_its_policies_say(vec![
        Other(Op::Connect(0)),
        Configure(0, 2),
        set(0, 1, &[]),
        set(1, 0, &[]),
        Other(Op::Run(4)),
        Other(Op::Remove { agent: 0, key: 1 }),
        Other(Op::HandEdit(0)),
        Other(Op::Connect(1)),
        Other(Op::Run(4)),
        set(0, 1, &[]),
        Configure(0, 0),
    ]);
}

#[test]
fn case_d() {
    ends_as_its_policies_say(vec![
        Other(Op::Connect(0)),
        set(1, 0, &[]),
        set(0, 1, &[]),
        Other(Op::Run(4)),
        set(0, 1, &[1, 0]),
        Other(Op::HandEdit(67)),
        set(0, 2, &[0, 1]),
        Other(Op::RestartWriter),
        Configure(0, 5),
    ]);
}
