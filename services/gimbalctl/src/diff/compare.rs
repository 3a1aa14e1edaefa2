//! Compares what sources offer with what the writer holds, and that with the Gimbal cluster. No I/O.

use std::collections::BTreeMap;

use gimbal_wire::pb;

/// A Service of a backend: the backend, its namespace there, its name.
pub type ServiceId = (String, String, String);

/// What one server knows of Services.
pub type Known = BTreeMap<ServiceId, pb::ServiceStatus>;

/// One difference of one Service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// The Service.
    pub service: ServiceId,
    /// Where something else is than before it.
    pub place: DiffPlace,
    /// How it differs.
    pub kind: DifferenceKind,
    /// What differs, and why as far as that is known.
    pub what: String,
}

/// A place on the way of a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiffPlace {
    /// The writer, compared with the source.
    Writer,
    /// The Gimbal cluster, compared with the writer.
    Cluster,
}

/// How something differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DifferenceKind {
    /// It should be there.
    Missing,
    /// It should not.
    Extra,
    /// It should be otherwise.
    Different,
}

impl DiffPlace {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Writer => "writer",
            Self::Cluster => "cluster",
        }
    }
}

impl DifferenceKind {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::Different => "different",
        }
    }
}

/// Returns the Service of a status.
pub fn service_id(status: &pb::ServiceStatus) -> ServiceId {
    let key = status.source.clone().unwrap_or_default();
    (status.backend.clone(), key.namespace, key.name)
}

/// Compares the writer with the discoverer of one backend. `is_known` says of a namespace whether the discoverer knows all
/// of it now: what it does not name elsewhere may be there all the same.
pub fn source_with_writer(source: &Known, writer: &Known, is_known: impl Fn(&str) -> bool) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut add = |id: &ServiceId, kind, what| {
        found.push(Difference { service: id.clone(), place: DiffPlace::Writer, kind, what });
    };
    for (id, offered) in source {
        match writer.get(id).filter(|held| !held.digest.is_empty()) {
            None => add(id, DifferenceKind::Missing, offered.message.clone()),
            Some(held) if held.digest != offered.digest => {
                add(id, DifferenceKind::Different, contents(offered, held));
            }
            Some(_) => {}
        }
    }
    let held = writer.iter().filter(|(_, held)| !held.digest.is_empty());
    for (id, _) in held.filter(|(id, _)| !source.contains_key(*id) && is_known(&id.1)) {
        add(id, DifferenceKind::Extra, "the source does not offer it".to_owned());
    }
    found
}

/// Compares the Gimbal cluster with what the writer holds of it.
pub fn writer_with_cluster(writer: &Known) -> Vec<Difference> {
    let of = |(id, held): (&ServiceId, &pb::ServiceStatus)| {
        if held.state() == pb::ServiceState::Synced {
            return None;
        }
        let kind = match held.published_endpoints {
            None => DifferenceKind::Missing,
            Some(_) if held.digest.is_empty() => DifferenceKind::Extra,
            Some(_) => DifferenceKind::Different,
        };
        Some(Difference { service: id.clone(), place: DiffPlace::Cluster, kind, what: reason(held) })
    };
    writer.iter().filter_map(of).collect()
}

/// Returns those differences that are still there at a second look. The others were changes on their way.
pub fn that_stay(first: &[Difference], second: Vec<Difference>) -> Vec<Difference> {
    let before = |one: &Difference| first.iter().any(|old| (&old.service, old.place) == (&one.service, one.place));
    second.into_iter().filter(before).collect()
}

/// Returns what differs between two contents of a Service.
fn contents(offered: &pb::ServiceStatus, held: &pb::ServiceStatus) -> String {
    let mut parts = Vec::new();
    if offered.ports != held.ports {
        parts.push("ports".to_owned());
    }
    for (name, offered, held) in [
        ("endpoints", offered.endpoints, held.endpoints),
        ("ready endpoints", offered.ready_endpoints, held.ready_endpoints),
    ] {
        if offered != held {
            parts.push(format!("{held} {name}, the source has {offered}"));
        }
    }
    if parts.is_empty() {
        parts.push("labels, annotations, or details of endpoints".to_owned());
    }
    if !offered.message.is_empty() {
        parts.push(offered.message.clone());
    }
    parts.join("; ")
}

/// Returns why the Gimbal cluster has something else than the writer holds.
fn reason(held: &pb::ServiceStatus) -> String {
    let state = held.state().as_str_name().trim_start_matches("SERVICE_STATE_").to_lowercase();
    let reason = match held.reject_reason() {
        pb::RejectReason::Unspecified | pb::RejectReason::Held => String::new(),
        reason => {
            let words = reason.as_str_name().trim_start_matches("REJECT_REASON_").to_lowercase().replace('_', " ");
            format!(" ({words})")
        }
    };
    let message = if held.message.is_empty() { String::new() } else { format!(": {}", held.message) };
    let endpoints = match held.published_endpoints {
        Some(published) if !held.digest.is_empty() && published != held.endpoints => {
            format!("; {published} of {} endpoints", held.endpoints)
        }
        _ => String::new(),
    };
    format!("{state}{reason}{message}{endpoints}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(services: &[pb::ServiceStatus]) -> Known {
        services.iter().map(|status| (service_id(status), status.clone())).collect()
    }

    fn status(name: &str, digest: u8) -> pb::ServiceStatus {
        pb::ServiceStatus {
            backend: "a".into(),
            source: Some(pb::ServiceKey { namespace: "ns".into(), name: name.into() }),
            state: pb::ServiceState::Synced.into(),
            endpoints: 3,
            ready_endpoints: 3,
            digest: vec![digest; 16],
            published_endpoints: Some(3),
            ..Default::default()
        }
    }

    fn lines(found: &[Difference]) -> Vec<String> {
        let line =
            |one: &Difference| format!("{} {} {}: {}", one.service.2, one.place.name(), one.kind.name(), one.what);
        found.iter().map(line).collect()
    }

    #[test]
    fn what_is_at_one_end_only_or_otherwise_differs() {
        let unheard = pb::ServiceStatus { message: "on its way to the writer".into(), ..status("new", 1) };
        let grown = pb::ServiceStatus { endpoints: 5, ..status("grown", 2) };
        let source = known(&[status("same", 1), unheard, grown, status("labels", 2)]);
        let published_only = pb::ServiceStatus { digest: Vec::new(), ..status("orphan", 1) };
        let writer =
            known(&[status("same", 1), status("grown", 1), status("labels", 1), status("old", 1), published_only]);
        assert_eq!(
            lines(&source_with_writer(&source, &writer, |_| true)),
            [
                "grown writer different: 3 endpoints, the source has 5",
                "labels writer different: labels, annotations, or details of endpoints",
                "new writer missing: on its way to the writer",
                "old writer extra: the source does not offer it",
            ]
        );
        // What the discoverer cannot read it cannot deny.
        assert_eq!(source_with_writer(&source, &writer, |_| false).len(), 3);
        assert_eq!(source_with_writer(&source, &source, |_| true), []);
    }

    #[test]
    fn what_is_not_published_as_it_should_be_has_its_reason() {
        let state = |name: &str, state: pb::ServiceState, published| pb::ServiceStatus {
            state: state.into(),
            published_endpoints: published,
            message: "why".into(),
            ..status(name, 1)
        };
        let mut refused = state("refused", pb::ServiceState::Rejected, None);
        refused.reject_reason = pb::RejectReason::NamespaceMissing.into();
        let mut held = state("held", pb::ServiceState::Held, Some(40));
        held.reject_reason = pb::RejectReason::Held.into();
        let orphan = pb::ServiceStatus { digest: Vec::new(), ..state("orphan", pb::ServiceState::Held, Some(3)) };
        let writer = known(&[status("same", 1), refused, held, orphan]);
        assert_eq!(
            lines(&writer_with_cluster(&writer)),
            [
                "held cluster different: held: why; 40 of 3 endpoints",
                "orphan cluster extra: held: why",
                "refused cluster missing: rejected (namespace missing): why",
            ]
        );
    }

    #[test]
    fn what_was_on_its_way_is_no_difference() {
        let at = |name: &str, digest| known(&[status(name, digest)]);
        let first = source_with_writer(&at("a", 1), &at("a", 2), |_| true);
        assert_eq!(that_stay(&first, source_with_writer(&at("a", 3), &at("a", 3), |_| true)), []);
        assert_eq!(that_stay(&first, source_with_writer(&at("a", 3), &at("a", 4), |_| true)).len(), 1);
        assert_eq!(that_stay(&first, source_with_writer(&at("b", 3), &Known::new(), |_| true)), [], "another one");
    }
}
