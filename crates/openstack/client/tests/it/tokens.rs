//! Tokens: how they are issued, cached and renewed, and how often Keystone is asked.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{cloud_with, connect, credentials, list, load_balancing, options};
use futures::future::join_all;
use gimbal_openstack_client::{CallKind, CallOutcome, Cloud, Error, TokenScope};
use gimbal_testkit::eventually;
use gimbal_testkit::fake_openstack::{FakeOpenStack, Fault};
use tokio::sync::Semaphore;

const TOKENS: &str = "POST /v3/auth/tokens";
const LISTS: &str = "GET /v2/lbaas/loadbalancers";

#[tokio::test]
async fn wrong_credentials_differ_from_everything_else() {
    let fake = FakeOpenStack::start().await.unwrap();
    connect(&fake).await.unwrap();
    fake.set(|cloud| cloud.password = "other".into());
    fake.forget_calls();
    let error = connect(&fake).await.unwrap_err();
    assert!(matches!(error, Error::InvalidCredentials { .. }), "{error}");
    assert_eq!(fake.count(TOKENS), 1, "asked again with the same password");
    for fault in [
        Fault::on("/auth/tokens").status(403),
        Fault::on("/auth/tokens").status(500),
        Fault::on("/auth/tokens").status(404),
        Fault::on("/auth/tokens").status(400),
        Fault::on("/auth/tokens").cut(),
        Fault::on("/auth/tokens").text(201, "{}"),
    ] {
        fake.heal();
        fake.fail(fault);
        let error = connect(&fake).await.unwrap_err();
        assert!(!matches!(error, Error::InvalidCredentials { .. }), "{error}");
    }
}

#[tokio::test]
async fn nobody_there() {
    let url = {
        let fake = FakeOpenStack::start().await.unwrap();
        fake.url()
    };
    eventually("the port is closed", Duration::from_secs(5), async || {
        match Cloud::connect(credentials(&url, &[]), options()).await {
            Err(Error::Unreachable { message }) => Ok(message),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_hundred_callers_log_in_once() {
    let (fake, _) = cloud_with(1).await;
    let cloud = Cloud::new(credentials(&fake.url(), &[]), options()).unwrap();
    fake.forget_calls();
    let gate = Arc::new(Semaphore::new(0));
    fake.fail(Fault::on("/auth/tokens").hold(&gate));
    let callers = (0..100).map(|_| list(&cloud));
    let (lists, asked) = tokio::join!(join_all(callers), async {
        let asked = eventually("somebody logs in", Duration::from_secs(5), async || match fake.count(TOKENS) {
            0 => Err("no request yet"),
            count => Ok(count),
        });
        let asked = asked.await;
        gate.add_permits(1);
        asked
    });
    assert_eq!(asked.unwrap(), 1);
    assert!(lists.into_iter().all(|list| list.unwrap() == "lb0"));
    // One token for the password, and one for the project.
    assert_eq!((fake.count(TOKENS), cloud.calls().tokens_issued()), (2, 2));
}

#[tokio::test]
async fn a_scope_without_a_role_costs_one_login_however_often_it_is_tried() {
    let (fake, cloud) = cloud_with(1).await;
    fake.set(|cloud| {
        cloud.project("p2", "beta");
        cloud.foreign.insert("p2".to_owned());
    });
    let logins = || fake.bodies().iter().filter(|body| body["auth"]["identity"].get("password").is_some()).count();
    let before = logins();
    let session = cloud.session(&TokenScope::Project("p2".into()));
    for _ in 0..10 {
        let error = session.roles().await.unwrap_err();
        assert!(matches!(error, Error::Forbidden { .. }), "{error}");
    }
    assert_eq!(logins() - before, 1);
    // The role is there at once when it is given.
    fake.set(|cloud| cloud.foreign.clear());
    session.roles().await.unwrap();
}

#[tokio::test]
async fn a_revoked_token_is_replaced_once_for_all() {
    let (fake, cloud) = cloud_with(1).await;
    list(&cloud).await.unwrap();
    let session = cloud.session(&TokenScope::Project("p1".into()));
    session.roles().await.unwrap();
    fake.set(|cloud| cloud.revoke_tokens());
    fake.forget_calls();
    let lists = join_all((0..100).map(|_| list(&cloud))).await;
    assert!(lists.into_iter().all(|list| list.unwrap() == "lb0"));
    // The project's token by the base token, which is revoked too; then one by the password, and the project's again.
    assert_eq!(fake.count(TOKENS), 3);
    assert_eq!(fake.count(LISTS), 200);
}

#[tokio::test]
async fn a_401_is_tried_once_more_and_no_more() {
    let (fake, cloud) = cloud_with(1).await;
    fake.fail(Fault::on("/loadbalancers").status(401));
    let error = list(&cloud).await.unwrap_err();
    assert!(matches!(error, Error::Unauthorized { .. }), "{error}");
    assert_eq!((fake.count(LISTS), cloud.calls().tokens_rejected()), (2, 1));
}

#[tokio::test]
async fn credentials_that_turned_invalid_are_shown_once() {
    let (fake, cloud) = cloud_with(1).await;
    list(&cloud).await.unwrap();
    fake.set(|cloud| {
        cloud.password = "other".into();
        cloud.revoke_tokens();
    });
    fake.forget_calls();
    for _ in 0..20 {
        let error = list_now(&cloud).await.unwrap_err();
        assert!(matches!(error, Error::InvalidCredentials { .. }), "{error}");
    }
    // One attempt by the base token and one by the password, and no more: a Keystone that counts would lock the
    // account.
    assert!(fake.count(TOKENS) <= 2, "{}", fake.count(TOKENS));
    fake.set(|cloud| cloud.password = "fake-secret".into());
    let cloud = connect(&fake).await.unwrap();
    list_now(&cloud).await.unwrap();
}

/// Like `list`, without a panic if the session gets no token.
async fn list_now(cloud: &Cloud) -> Result<usize, Error> {
    let load_balancing = cloud.session(&TokenScope::Project("p1".into())).load_balancing().await?;
    Ok(load_balancing.load_balancers(None).await?.rows.len())
}

#[tokio::test]
async fn a_token_is_renewed_before_it_ends() {
    let (fake, _) = cloud_with(1).await;
    // The lifetime left after the renewal is due must be longer than a busy machine takes.
    fake.set(|cloud| cloud.token_life = Duration::from_secs(15));
    let cloud = connect(&fake).await.unwrap();
    let session = cloud.session(&TokenScope::Project("p1".into()));
    let load_balancing = session.load_balancing().await.unwrap();
    eventually("another token", Duration::from_secs(40), async || {
        load_balancing.load_balancers(None).await.map_err(|error| error.to_string())?;
        match cloud.calls().tokens_issued() {
            0..4 => Err("not yet".to_owned()),
            _ => Ok(()),
        }
    })
    .await
    .unwrap();
    // No service refused an expired token.
    assert_eq!(cloud.calls().count(CallKind::LoadBalancers, CallOutcome::Unauthorized), 0);
}

#[tokio::test]
async fn projects_and_those_without_a_role() {
    let (fake, cloud) = cloud_with(0).await;
    fake.set(|cloud| {
        cloud.project("p2", "beta");
        cloud.foreign.insert("p2".into());
    });
    let names = async || {
        let projects = cloud.projects().await.unwrap();
        let names: Vec<_> = projects.rows.iter().map(|project| project.name.to_string()).collect();
        names.join(" ")
    };
    assert_eq!(names().await, "alpha");
    let foreign = cloud.session(&TokenScope::Project("p2".into()));
    assert!(matches!(foreign.load_balancing().await, Err(Error::Forbidden { .. })));
    let own = cloud.session(&TokenScope::Project("p1".into()));
    assert_eq!(own.roles().await.unwrap().into_iter().collect::<Vec<_>>(), ["member"]);
    assert_eq!(own.project().await.unwrap().unwrap().id.as_str(), "p1");
    assert!(matches!(own.all_projects().await, Err(Error::Forbidden { .. })));
    fake.set(|cloud| cloud.global = true);
    assert_eq!(names().await, "alpha");
    assert_eq!(own.all_projects().await.unwrap().rows.len(), 2);
    fake.set(|cloud| cloud.projects_truncated = true);
    assert!(matches!(cloud.projects().await, Err(Error::Cut { .. })));
}

/// The token stays the same, while its roles change.
#[tokio::test]
async fn a_token_that_lost_a_role_says_so_when_it_is_asked() {
    let (fake, cloud) = cloud_with(0).await;
    fake.set(|cloud| cloud.global = true);
    let session = cloud.session(&TokenScope::Project("p1".into()));
    let before = session.roles().await.unwrap();
    assert_eq!(session.roles_now().await.unwrap(), before);
    fake.set(|cloud| cloud.global = false);
    assert_eq!(session.roles().await.unwrap(), before);
    let missing: Vec<_> = before.difference(&session.roles_now().await.unwrap()).cloned().collect();
    assert_eq!(missing, ["load-balancer_global_observer"]);
    // A token that is no longer accepted is replaced.
    fake.set(|cloud| cloud.revoke_tokens());
    assert_eq!(session.roles_now().await.unwrap().len(), 1);
}

/// The fake refuses it as Keystone does.
#[tokio::test]
async fn an_application_credential_has_no_token_of_another_scope() {
    let (fake, _) = cloud_with(1).await;
    let given = [("OS_APPLICATION_CREDENTIAL_ID", "fake"), ("OS_APPLICATION_CREDENTIAL_SECRET", "fake-secret")];
    let cloud = Cloud::connect(credentials(&fake.url(), &given), options()).await.unwrap();
    let error = cloud.session(&TokenScope::Project("p1".into())).load_balancing().await.unwrap_err();
    assert!(matches!(error, Error::Forbidden { .. }), "{error}");
}

/// A catalog that changes for a while does not redirect calls, and the token with that catalog is dropped.
#[tokio::test]
async fn load_balancing_stays_where_it_was() {
    let (fake, cloud) = cloud_with(1).await;
    let place = load_balancing(&cloud).await.place().clone();
    let session = cloud.session(&TokenScope::Project("p1".into()));
    session.load_balancing_at(&place).await.unwrap();
    for catalog in [vec!["network"], vec![]] {
        fake.set(|cloud| {
            cloud.catalog = Some(catalog);
            cloud.revoke_tokens();
        });
        session.roles_now().await.unwrap();
        for _ in 0..2 {
            let error = session.load_balancing_at(&place).await.unwrap_err();
            assert!(matches!(error, Error::Catalog { .. }), "{error}");
        }
        fake.set(|cloud| cloud.catalog = None);
        session.load_balancing_at(&place).await.unwrap();
    }
}

#[tokio::test]
async fn a_configured_project_is_checked_at_once() {
    let (fake, _) = cloud_with(1).await;
    let by_name = |name| credentials(&fake.url(), &[("OS_PROJECT_NAME", name)]);
    let cloud = Cloud::connect(by_name("alpha"), options()).await.unwrap();
    let session = cloud.session(cloud.scope().unwrap());
    assert_eq!(session.project().await.unwrap().unwrap().id.as_str(), "p1");
    let error = Cloud::connect(by_name("omega"), options()).await.unwrap_err();
    assert!(matches!(error, Error::Forbidden { .. }), "{error}");
    assert!(error.to_string().contains("no role on NamedProject { name: \"omega\""), "{error}");
}

#[tokio::test]
async fn an_application_credential_is_its_own_scope() {
    let (fake, _) = cloud_with(1).await;
    let given = [("OS_APPLICATION_CREDENTIAL_ID", "fake"), ("OS_APPLICATION_CREDENTIAL_SECRET", "fake-secret")];
    let cloud = Cloud::connect(credentials(&fake.url(), &given), options()).await.unwrap();
    assert_eq!(cloud.scope(), Some(&TokenScope::Bound));
    let session = cloud.session(&TokenScope::Bound);
    let load_balancing = session.load_balancing().await.unwrap();
    assert_eq!(load_balancing.load_balancers(None).await.unwrap().rows.len(), 1);
    assert_eq!(cloud.projects().await.unwrap().rows.len(), 1);
    assert_eq!(cloud.calls().tokens_issued(), 1);
    fake.set(|cloud| {
        cloud.password = "other".into();
        cloud.revoke_tokens();
    });
    let error = load_balancing.load_balancers(None).await.unwrap_err();
    assert!(matches!(error, Error::InvalidCredentials { .. }), "{error}");
}

#[tokio::test]
async fn a_token_goes_with_its_last_session() {
    let (fake, cloud) = cloud_with(1).await;
    let session = cloud.session(&TokenScope::Project("p1".into()));
    session.roles().await.unwrap();
    load_balancing(&cloud).await;
    assert_eq!(fake.set(|cloud| cloud.tokens.len()), 2, "one of each scope");
    drop(session);
    load_balancing(&cloud).await;
    assert_eq!(fake.set(|cloud| cloud.tokens.len()), 3);
}
