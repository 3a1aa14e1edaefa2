//! Names in the Gimbal cluster that two claim.

use std::collections::BTreeMap;

use gimbal_transport::{Channel, Status};
use gimbal_wire::pb;
use pb::inspection_service_client::InspectionServiceClient;

use super::limits::within;
use super::result::CheckResult;
use crate::refusal::failed;

/// The Services that are refused because their name belongs to another one, as namespace/name, by backend; or why they are not known.
pub type Conflicts = Result<BTreeMap<String, Vec<String>>, String>;

/// Asks for the Services that are refused for their names, within `limit`.
pub async fn conflicts(channel: Channel, limit: std::time::Duration) -> Conflicts {
    within(limit, ask(channel)).await?.map_err(|status| failed(status).to_string())
}

async fn ask(channel: Channel) -> Result<BTreeMap<String, Vec<String>>, Status> {
    let mut client = InspectionServiceClient::new(channel);
    let mut request = pb::ListServicesRequest { only_trouble: true, ..Default::default() };
    let mut found = BTreeMap::new();
    loop {
        let page = client.list_services(request.clone()).await?.into_inner();
        add(&mut found, page.services);
        if page.next_page_token.is_empty() {
            return Ok(found);
        }
        request.page_token = page.next_page_token;
    }
}

fn add(found: &mut BTreeMap<String, Vec<String>>, services: Vec<pb::ServiceStatus>) {
    for service in services.into_iter().filter(|one| one.reject_reason() == pb::RejectReason::NameConflict) {
        let key = service.source.unwrap_or_default();
        found.entry(service.backend).or_default().push(format!("{}/{}", key.namespace, key.name));
    }
}

/// Checks the names of one backend: those that are taken already, and those that may be.
pub fn result(backend: &pb::Backend, conflicts: &Conflicts) -> CheckResult {
    let (id, name) = ("backend.names", &*backend.name);
    let taken = match conflicts {
        Ok(conflicts) => conflicts.get(name).map(Vec::as_slice).unwrap_or_default(),
        Err(_) => &[],
    };
    if let [first, ..] = taken {
        let hint = format!("gimbalctl why {first} --backend {name} says which has the name; rename one of them");
        let found = format!("the names of {} of its Services are taken, for instance that of {first}", taken.len());
        return CheckResult::warn(id, name, found, hint);
    }
    if !backend.names_join.is_empty() {
        let found = format!("its Services may get the names of those of {}", backend.names_join.join(", "));
        let hint = "give each namespaces of its own (namespaces.allow in the configuration), or other names";
        return CheckResult::warn(id, name, found, hint);
    }
    match conflicts {
        Ok(_) => CheckResult::ok(id, name, ""),
        Err(why) => CheckResult::skip(id, name, why),
    }
}

#[cfg(test)]
mod tests {
    use super::super::result::CheckLevel;
    use super::*;

    fn refused(backend: &str, name: &str, reason: pb::RejectReason) -> pb::ServiceStatus {
        let source = Some(pb::ServiceKey { namespace: "team1".into(), name: name.into() });
        pb::ServiceStatus { backend: backend.into(), source, reject_reason: reason.into(), ..Default::default() }
    }

    #[test]
    fn a_name_that_is_taken_counts_more_than_one_that_may_be() {
        let mut found = BTreeMap::new();
        let services = vec![
            refused("a", "web", pb::RejectReason::NameConflict),
            refused("a", "api", pb::RejectReason::NameConflict),
            refused("b", "web", pb::RejectReason::Quota),
        ];
        add(&mut found, services);
        assert_eq!(found.len(), 1, "{found:?}");
        let unknown = || Err("no answer within 10 s".to_owned());
        for (name, joined, conflicts, level, words) in [
            (
                "a",
                &["a-b"][..],
                Ok(found.clone()),
                CheckLevel::Warn,
                "2 of its Services are taken, for instance that of team1/web",
            ),
            ("b", &["b-c", "b-d"], Ok(found.clone()), CheckLevel::Warn, "the names of those of b-c, b-d"),
            ("b", &["b-c"], unknown(), CheckLevel::Warn, "the names of those of b-c"),
            ("b", &[], Ok(found.clone()), CheckLevel::Ok, ""),
            ("b", &[], unknown(), CheckLevel::Skip, "no answer within 10 s"),
        ] {
            let names_join = joined.iter().map(ToString::to_string).collect();
            let one = pb::Backend { name: name.into(), names_join, ..Default::default() };
            let found = result(&one, &conflicts);
            assert!(found.level == level && found.found.ends_with(words), "{found:?}");
        }
    }
}
