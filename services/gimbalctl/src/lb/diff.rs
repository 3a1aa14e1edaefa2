//! `gimbalctl lb diff`: what openstack-writer would change about one load balancer.

use gimbal_kuryr_wire::pb;
use gimbal_runtime::Exit;

use super::{change_json, change_lines, phase};
use crate::output::OutputForm;

/// Returns what to print of the planned changes, and how the command ends: with exit code 1 if something differs, as `kubectl diff`,
/// and with 2 if it is not known whether anything does.
pub(super) fn diff(name: &str, answer: &pb::ExplainResponse, output: OutputForm) -> (String, Result<(), Exit>) {
    let ended = |words: String| Err(Exit::Failure(words));
    let status = answer.load_balancer.clone().unwrap_or_default();
    let planned = &answer.planned;
    let end = match planned.len() {
        // Before its first look the writer plans nothing, and what is in the way may need another wish.
        0 if status.phase() != pb::Phase::Ready => {
            let phase = phase(&status);
            Err(Exit::Usage(format!(
                "no change of {name} is planned, and it is {phase}: gimbalctl lb why {name} says what is in the way"
            )))
        }
        0 => Ok(()),
        1 => ended(format!("one change of {name} would follow")),
        count => ended(format!("{count} changes of {name} would follow")),
    };
    let text = match output {
        OutputForm::Json => planned.iter().map(|change| format!("{}\n", change_json(change))).collect(),
        OutputForm::Table if end.is_ok() => "nothing to change\n".to_owned(),
        OutputForm::Table => planned.iter().map(change_lines).collect(),
    };
    (text, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(phase: pb::Phase, planned: &[(&str, &str)]) -> pb::ExplainResponse {
        let change = |(verb, kind): &(&str, &str)| pb::PlannedChange {
            verb: (*verb).to_owned(),
            kind: (*kind).to_owned(),
            diff: vec!["+ 10.0.0.1:80, weight 1".to_owned()],
            ..pb::PlannedChange::default()
        };
        let status = pb::LoadBalancerStatus { phase: phase.into(), ..pb::LoadBalancerStatus::default() };
        pb::ExplainResponse {
            load_balancer: Some(status),
            planned: planned.iter().map(change).collect(),
            ..pb::ExplainResponse::default()
        }
    }

    #[test]
    fn it_ends_as_kubectl_diff_does() {
        let shown = |phase, planned: &[_], output| {
            let (text, end) = diff("shop/web", &answer(phase, planned), output);
            (text, end.err().map(|exit| (exit.code(), exit.to_string())))
        };
        let (none, one) = (&[][..], &[("update", "members")][..]);
        let two = &[("create", "pool"), ("create", "listener")];
        let failure = |words: &str| Some((1, words.to_owned()));
        assert_eq!(shown(pb::Phase::Ready, none, OutputForm::Table), ("nothing to change\n".to_owned(), None));
        assert_eq!(shown(pb::Phase::Ready, none, OutputForm::Json), (String::new(), None));
        let (text, end) = shown(pb::Phase::Ready, one, OutputForm::Table);
        assert_eq!(text, "update  members\n    + 10.0.0.1:80, weight 1\n");
        assert_eq!(end, failure("one change of shop/web would follow"));
        let (text, end) = shown(pb::Phase::Held, two, OutputForm::Json);
        assert_eq!((text.lines().count(), end), (2, failure("2 changes of shop/web would follow")));
        for phase in [pb::Phase::Waiting, pb::Phase::Blocked] {
            let (text, end) = shown(phase, none, OutputForm::Table);
            let (code, words) = end.unwrap();
            assert!(text.is_empty() && code == 2 && words.contains("gimbalctl lb why shop/web"), "{text} {words}");
        }
    }
}
