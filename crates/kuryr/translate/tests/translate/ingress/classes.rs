//! Which Ingresses are ours, and which router each has.

use gimbal_kubernetes_objects::Ingress;
use gimbal_kuryr_translate::{RouterInput, translate_router};
use gimbal_model::SourceKey;
use serde_json::json;

use super::common::{Cluster, class, created, findings, ingress, one_rule, routes, shared};

const OURS: &str = "kuryr.openstack.org/ingress";
const DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";

fn of_class(name: Option<&str>, annotation: Option<&str>) -> Ingress {
    let mut object = one_rule("web", "www.example.com", &["* s1:80"]);
    object.spec.ingress_class_name = name.map(Into::into);
    let annotations = &mut object.metadata.meta.annotations;
    annotations.extend(annotation.map(|class| ("kubernetes.io/ingress.class".into(), class.into())));
    object
}

fn router_of(cluster: &Cluster) -> Option<SourceKey> {
    cluster.ingresses.router_of(&SourceKey::new("team", "web")).cloned()
}

#[test]
fn the_class_decides_whose_it_is() {
    let mut cluster = Cluster::new();
    cluster.ingresses.apply_class(&class("nginx", "k8s.io/ingress-nginx", json!({})));
    for (name, annotation, is_ours) in [
        (Some("kuryr"), None, true),
        (Some("nginx"), None, false),
        (Some("absent"), None, false),
        (None, None, false),
        (None, Some("kuryr"), true),
        (None, Some("nginx"), false),
        // The field counts.
        (Some("nginx"), Some("kuryr"), false),
        (Some("kuryr"), Some("nginx"), true),
    ] {
        cluster.ingresses.apply_ingress(of_class(name, annotation));
        assert_eq!(router_of(&cluster), is_ours.then(shared), "{name:?} {annotation:?}");
    }
    let mut going = of_class(Some("kuryr"), None);
    going.metadata.meta.deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
    cluster.ingresses.apply_ingress(going);
    assert_eq!((router_of(&cluster), routes(&cluster.shared().spec)), (None, vec![]));
}

#[test]
fn without_a_class_the_youngest_default_class_decides() {
    let mut cluster = Cluster::new();
    cluster.ingresses.apply_ingress(of_class(None, None));
    let default = |name: &str, controller: &str, age: usize| {
        let mut class = class(name, controller, json!({DEFAULT: "true"}));
        class.metadata.creation_timestamp = Some(created(age));
        class
    };
    cluster.ingresses.apply_class(&default("a", OURS, 1));
    assert_eq!(router_of(&cluster), Some(shared()));
    cluster.ingresses.apply_class(&default("b", "k8s.io/ingress-nginx", 2));
    assert_eq!(router_of(&cluster), None);
    // Of one age, the first by name.
    cluster.ingresses.apply_class(&default("a", OURS, 2));
    assert_eq!(router_of(&cluster), Some(shared()));
    cluster.ingresses.delete_class("b");
    cluster.ingresses.apply_class(&class("a", OURS, json!({DEFAULT: "false"})));
    assert_eq!(router_of(&cluster), None);
    // An annotation of another controller's time is a class of its own.
    cluster.ingresses.apply_class(&default("a", OURS, 1));
    cluster.ingresses.apply_ingress(of_class(None, Some("openstack")));
    assert_eq!(router_of(&cluster), None);
}

#[test]
fn a_class_that_is_removed_takes_no_route_away() {
    let served = |mut object: Ingress| {
        object.metadata.finalizers.push("kuryr.openstack.org/ingress-finalizer".into());
        object
    };
    let mut cluster = Cluster::with([served(of_class(Some("kuryr"), None))]);
    cluster.ingresses.delete_class("kuryr");
    let made = cluster.shared();
    assert_eq!(routes(&made.spec), ["www.example.com * -> team/s1:80"]);
    let said = "Held/NoIngressClass: Ingress team/web: it is served although there is no IngressClass \"kuryr\": give it \
                another class, or delete it, to let it go";
    assert_eq!(findings(&made)[0], said);
    // Another controller's class is a person's word.
    cluster.ingresses.apply_class(&class("kuryr", "k8s.io/ingress-nginx", json!({})));
    assert_eq!((router_of(&cluster), routes(&cluster.shared().spec)), (None, vec![]));
    cluster.ingresses.apply_class(&class("kuryr", OURS, json!({})));
    assert_eq!(findings(&cluster.shared()).len(), 1, "only that there is no Service");
}

/// The field that says which controller a class is of does not change: whoever corrects it deletes the class, and makes it again.
#[test]
fn a_default_class_that_is_replaced_takes_no_route_away() {
    let mut object = of_class(None, None);
    object.metadata.finalizers.push("kuryr.openstack.org/ingress-finalizer".into());
    let mut cluster = Cluster::with([object]);
    let default = |name: &str, controller: &str, age: usize| {
        let mut class = class(name, controller, json!({DEFAULT: "true"}));
        class.metadata.creation_timestamp = Some(created(age));
        class
    };
    cluster.ingresses.apply_class(&default("kuryr", OURS, 2));
    cluster.ingresses.apply_class(&default("nginx", "k8s.io/ingress-nginx", 1));
    assert_eq!(findings(&cluster.shared()).len(), 1, "only that there is no Service");
    cluster.ingresses.delete_class("kuryr");
    let made = cluster.shared();
    assert_eq!(routes(&made.spec), ["www.example.com * -> team/s1:80"]);
    let said = "Held/NoIngressClass: Ingress team/web: it is served although there is no default IngressClass of ours: give it \
                another class, or delete it, to let it go";
    assert_eq!(findings(&made)[0], said);
    // What was never served is another controller's.
    cluster.ingresses.apply_ingress(of_class(None, None));
    assert_eq!(router_of(&cluster), None);
}

#[test]
fn the_annotation_chooses_the_router() {
    let unreadable = "Unsupported/InvalidAnnotation: Ingress team/web: annotation kuryr.openstack.org/l7-router=";
    for (value, router, problem) in [
        (None, shared(), None),
        (Some("own"), SourceKey::new("team", "web"), None),
        (Some(" own "), SourceKey::new("team", "web"), None),
        (Some("group:outside"), SourceKey::new("team", "outside"), None),
        (Some("group:a.b-c"), SourceKey::new("team", "a.b-c"), None),
        (Some(""), shared(), Some("it is neither own nor group:NAME")),
        (Some("Own"), shared(), Some("it is neither own nor group:NAME")),
        (Some("group:"), shared(), Some("the name of a group")),
        (Some("group:Outside"), shared(), Some("the name of a group")),
        (Some("group:other/web"), shared(), Some("the name of a group")),
        (Some("group:-a"), shared(), Some("the name of a group")),
    ] {
        let mut object = of_class(Some("kuryr"), None);
        let annotations = &mut object.metadata.meta.annotations;
        annotations.extend(value.map(|value| ("kuryr.openstack.org/l7-router".into(), value.into())));
        let cluster = Cluster::with([object]);
        assert_eq!(router_of(&cluster), Some(router.clone()), "{value:?}");
        let made = cluster.router(&router);
        assert_eq!(routes(&made.spec), ["www.example.com * -> team/s1:80"]);
        let said = findings(&made);
        let found = said.iter().find(|said| said.starts_with(unreadable));
        assert_eq!(found.is_some(), problem.is_some(), "{said:?}");
        assert!(problem.is_none_or(|problem| found.unwrap().contains(problem)), "{said:?}");
        // The address that is asked for is that of the shared router.
        assert_eq!(made.spec.l7_router_ip.is_some(), router == shared());
    }
}

#[test]
fn groups_share_and_own_routers_do_not() {
    let with = |name: &str, value: &str| {
        let mut object = one_rule(name, &format!("{name}.example.com"), &["* s1:80"]);
        object.metadata.meta.annotations.insert("kuryr.openstack.org/l7-router".into(), value.into());
        object
    };
    let mut cluster = Cluster::with([
        with("a", "group:outside"),
        with("b", "group:outside"),
        with("c", "own"),
        one_rule("d", "d.example.com", &["* s1:80"]),
    ]);
    let routers: Vec<_> = cluster.ingresses.routers().map(ToString::to_string).collect();
    assert_eq!(routers, ["gimbal-system/kuryr-l7-router", "team/c", "team/outside"]);
    let of = |cluster: &Cluster, name: &str| routes(&cluster.router(&SourceKey::new("team", name)).spec);
    assert_eq!(of(&cluster, "outside"), ["a.example.com * -> team/s1:80", "b.example.com * -> team/s1:80"]);
    assert_eq!(of(&cluster, "c"), ["c.example.com * -> team/s1:80"]);
    // A group of the name of an Ingress with a router of its own.
    cluster.ingresses.drain();
    cluster.ingresses.apply_ingress(with("e", "group:c"));
    assert_eq!(cluster.ingresses.drain(), [SourceKey::new("team", "c")]);
    let both = cluster.router(&SourceKey::new("team", "c"));
    assert_eq!(routes(&both.spec).len(), 2);
    let said = "Conflict/SharedRouter: Ingress team/c: it shares the router team/c: another Ingress asked for that as the one \
                of a group";
    assert!(findings(&both).contains(&said.to_owned()), "{:?}", findings(&both));
    // With its last Ingress a router has none, and is returned once more.
    cluster.ingresses.delete_ingress("team", "c");
    cluster.ingresses.delete_ingress("team", "e");
    assert_eq!(cluster.ingresses.drain(), [SourceKey::new("team", "c")]);
    assert_eq!(of(&cluster, "c"), Vec::<String>::new());
}

#[test]
fn one_that_changes_its_router_is_told_of_at_both() {
    let mut cluster = Cluster::with([of_class(Some("kuryr"), None)]);
    assert_eq!(cluster.ingresses.drain(), [shared()]);
    let mut own = of_class(Some("kuryr"), None);
    own.metadata.meta.annotations.insert("kuryr.openstack.org/l7-router".into(), "own".into());
    cluster.ingresses.apply_ingress(own.clone());
    assert_eq!(cluster.ingresses.drain(), [shared(), SourceKey::new("team", "web")]);
    // What routes are not made from changes nothing, and is kept: writes are made against it.
    own.metadata.meta.resource_version = "7".into();
    own.metadata.finalizers.push("a/b".into());
    own.status.load_balancer.ingress.push(Default::default());
    cluster.ingresses.apply_ingress(own);
    assert!(cluster.ingresses.drain().is_empty());
    let kept = cluster.ingresses.ingress(&SourceKey::new("team", "web")).unwrap();
    assert_eq!((&*kept.metadata.meta.resource_version, kept.status.load_balancer.ingress.len()), ("7", 1));
}

#[test]
fn services_are_told_to_those_that_lead_there() {
    let mut cluster = Cluster::with([
        one_rule("a", "a.example.com", &["* s1:80", "/b* s2:http"]),
        ingress("b", json!({"defaultBackend": super::common::backend("s3:80")})),
    ]);
    cluster.ingresses.drain();
    for (service, is_named) in [("s1", true), ("s2", true), ("s3", true), ("s4", false)] {
        cluster.ingresses.service_changed(&SourceKey::new("team", service));
        let routers = if is_named { vec![shared()] } else { vec![] };
        assert_eq!(cluster.ingresses.drain(), routers, "{service}");
    }
    cluster.ingresses.service_changed(&SourceKey::new("other", "s1"));
    assert!(cluster.ingresses.drain().is_empty());
    cluster.ingresses.delete_ingress("team", "b");
    cluster.ingresses.drain();
    cluster.ingresses.service_changed(&SourceKey::new("team", "s3"));
    assert!(cluster.ingresses.drain().is_empty());
}

#[test]
fn one_that_is_not_served_yet_has_no_route() {
    let cluster = Cluster::with(["a", "b"].map(|name| one_rule(name, &format!("{name}.example.com"), &["* s1:80"])));
    let (router, without) = (shared(), [SourceKey::new("team", "a")].into());
    let made = translate_router(&RouterInput { without: &without, ..cluster.input(&router) });
    assert_eq!(routes(&made.spec), ["b.example.com * -> team/s1:80"]);
    assert!(made.findings.iter().all(|one| one.ingress() == Some(&SourceKey::new("team", "b"))));
}
