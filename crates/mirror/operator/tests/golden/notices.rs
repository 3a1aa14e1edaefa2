//! What Events say of a discoverer.

use gimbal_operator_core::{
    ManagedKind, ObjectId, ReadyStatement, WantedObject, condition_to_write, made_notice, problem_notice,
    removed_notice, wanted,
};

use crate::{backend, kubernetes, settings};

#[test]
fn what_is_missing_is_reported_once_and_what_is_on_its_way_never() {
    let metadata = backend("node02", &kubernetes()).metadata;
    let missing = ReadyStatement::not("SecretMissing", "there is no Secret a");
    let notice = problem_notice(&metadata, &missing, None).unwrap();
    assert_eq!((notice.backend.as_str(), notice.uid.as_str()), ("node02", "uid-of-node02"));
    assert!(notice.is_warning);
    assert_eq!((notice.reason, notice.message.as_str()), ("SecretMissing", "there is no Secret a"));
    // As another operator, or the next one, reads it.
    let said = condition_to_write(&missing, 1, None, "at 1");
    assert_eq!(problem_notice(&metadata, &missing, said.as_ref()), None);
    for other in [ReadyStatement::not("SecretMissing", "there is no Secret b"), ReadyStatement::not("NameTaken", "")] {
        assert!(problem_notice(&metadata, &other, said.as_ref()).is_some(), "{other:?}");
    }
    let available = ReadyStatement { ready: true, reason: "Available", message: String::new() };
    for fine in [available, ReadyStatement::not("NotAvailable", "no pod is available")] {
        assert_eq!(problem_notice(&metadata, &fine, said.as_ref()), None, "{fine:?}");
    }
}

#[test]
fn what_is_done_is_reported_about_the_backend_that_asked_for_it() {
    let discoverer = backend("node02", &kubernetes()).discoverer(&settings()).unwrap();
    let all = wanted(&discoverer, &settings(), Some("content"));
    let Some(WantedObject::Deployment(made)) = all.last() else { panic!("{all:?}") };
    let id = ObjectId { kind: ManagedKind::Deployment, name: discoverer.object_name() };
    let notices = [
        made_notice(&discoverer, &settings(), &id, false),
        made_notice(&discoverer, &settings(), &id, true),
        removed_notice(&id, &made.metadata).unwrap(),
    ];
    let reasons = ["DiscovererMade", "DiscovererChanged", "DiscovererRemoved"];
    for (notice, reason) in notices.iter().zip(reasons) {
        assert_eq!((notice.backend.as_str(), notice.uid.as_str()), ("node02", "uid-of-node02"));
        assert_eq!((notice.reason, notice.is_warning), (reason, false));
        let place = "Deployment gimbal-kubernetes-discoverer-node02 in gimbal-discovery was ";
        assert!(notice.message.starts_with(place), "{}", notice.message);
    }
    let mut somebodys = made.metadata.clone();
    somebodys.owner_references.clear();
    assert_eq!(removed_notice(&id, &somebodys), None);
}
