//! How far a Service has come, in words.

use gimbal_wire::pb;

use crate::age;

/// Returns when a Service passed a discoverer, or came to a writer.
#[must_use]
pub fn carried(progress: &pb::ServiceProgress) -> Vec<String> {
    let ago = |millis: u64| format!("{} ago", age(Some(millis)));
    let frame = |verb: &str, millis: u64| {
        format!("{verb} {} as frame {} of stream {}", ago(millis), progress.seq, progress.generation)
    };
    let Some(reported) = progress.reported_ms else {
        return progress.carried_ms.map(|millis| frame("came", millis)).into_iter().collect();
    };
    let mut told = vec![format!("reported {}", ago(reported))];
    match progress.carried_ms {
        None => told.push("not sent by this process".to_owned()),
        Some(millis) => {
            told.push(frame("sent", millis));
            told.push(match progress.acknowledged_ms {
                Some(millis) => format!("acknowledged {}", ago(millis)),
                None => "not acknowledged".to_owned(),
            });
        }
    }
    told
}

/// Returns what a writer wrote of a Service last; nothing of a discoverer, which writes nothing.
#[must_use]
pub fn written(progress: &pb::ServiceProgress) -> Vec<String> {
    if progress.reported_ms.is_some() {
        return Vec::new();
    }
    let Some(pb::WriteAnswer { verb, kind, name, status, answer, age_ms }) = &progress.last_write else {
        return vec!["nothing written by this process".to_owned()];
    };
    let status = if *status == 0 { String::new() } else { format!(" ({status})") };
    let last = format!("last write {} ago: {verb} {kind} {name}: {answer}{status}", age(Some(*age_ms)));
    let accepted = progress.written_ms.filter(|_| answer != "ok");
    let accepted = accepted.map(|millis| format!("the last one that was accepted {} ago", age(Some(millis))));
    std::iter::once(last).chain(accepted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_says_how_far_a_service_has_come() {
        let frame = pb::ServiceProgress { generation: 7, seq: 12, carried_ms: Some(4000), ..Default::default() };
        let source = pb::ServiceProgress { reported_ms: Some(5000), ..frame.clone() };
        let write = |answer: &str, status| pb::WriteAnswer {
            verb: "patch".into(),
            kind: "EndpointSlice".into(),
            name: "web-x".into(),
            status,
            answer: answer.into(),
            age_ms: 3000,
        };
        let wrote = |last, written_ms| pb::ServiceProgress { last_write: Some(last), written_ms, ..frame.clone() };
        let table: [(pb::ServiceProgress, &[&str], &[&str]); 7] = [
            (frame.clone(), &["came 4s ago as frame 12 of stream 7"], &["nothing written by this process"]),
            (pb::ServiceProgress::default(), &[], &["nothing written by this process"]),
            (source.clone(), &["reported 5s ago", "sent 4s ago as frame 12 of stream 7", "not acknowledged"], &[]),
            (
                pb::ServiceProgress { acknowledged_ms: Some(2000), ..source.clone() },
                &["reported 5s ago", "sent 4s ago as frame 12 of stream 7", "acknowledged 2s ago"],
                &[],
            ),
            (pb::ServiceProgress { carried_ms: None, ..source }, &["reported 5s ago", "not sent by this process"], &[]),
            (
                wrote(write("ok", 200), Some(3000)),
                &["came 4s ago as frame 12 of stream 7"],
                &["last write 3s ago: patch EndpointSlice web-x: ok (200)"],
            ),
            (
                wrote(write("timeout", 0), Some(9000)),
                &["came 4s ago as frame 12 of stream 7"],
                &["last write 3s ago: patch EndpointSlice web-x: timeout", "the last one that was accepted 9s ago"],
            ),
        ];
        for (progress, on_the_stream, in_the_cluster) in table {
            assert_eq!(carried(&progress), on_the_stream, "{progress:?}");
            assert_eq!(written(&progress), in_the_cluster, "{progress:?}");
        }
    }
}
