use proptest::prelude::*;

use super::*;

fn parse(annotations: &[(&str, &str)]) -> (Annotations, Vec<Finding>) {
    Annotations::parse(&annotations.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
}

fn of_cpo(name: &str, value: &str) -> (Annotations, Vec<Finding>) {
    parse(&[(&format!("{}{name}", kuryr::CLOUD_PROVIDER), value)])
}

/// Every annotation that is understood, with a value that can be read.
const ALL: [(&str, &str); 36] = [
    ("openstack.org/kuryr-project", "802a1a93cb6f4d1e9bd6c1b8b1ee1b2a"),
    ("openstack.org/kuryr-shared-group", "team1/web"),
    ("openstack.org/kuryr-timeout-client-data", "50000"),
    ("openstack.org/kuryr-timeout-member-data", "50000"),
    ("service.beta.kubernetes.io/openstack-internal-load-balancer", "true"),
    ("loadbalancer.openstack.org/timeout-client-data", "1"),
    ("loadbalancer.openstack.org/timeout-member-data", "0"),
    ("loadbalancer.openstack.org/timeout-member-connect", "5000"),
    ("loadbalancer.openstack.org/timeout-tcp-inspect", "0"),
    ("loadbalancer.openstack.org/floating-network-id", "77aa0b1e-0000-4000-8000-000000000001"),
    ("loadbalancer.openstack.org/floating-subnet", "public*"),
    ("loadbalancer.openstack.org/floating-subnet-id", "s"),
    ("loadbalancer.openstack.org/floating-subnet-tags", "a, b"),
    ("loadbalancer.openstack.org/class", "internet"),
    ("loadbalancer.openstack.org/subnet-id", "s"),
    ("loadbalancer.openstack.org/member-subnet-id", "s"),
    ("loadbalancer.openstack.org/network-id", "n"),
    ("loadbalancer.openstack.org/port-id", "p"),
    ("loadbalancer.openstack.org/connection-limit", "-1"),
    ("loadbalancer.openstack.org/keep-floatingip", "true"),
    ("loadbalancer.openstack.org/proxy-protocol", "v2"),
    ("loadbalancer.openstack.org/x-forwarded-for", "true"),
    ("loadbalancer.openstack.org/lb-method", "SOURCE_IP_PORT"),
    ("loadbalancer.openstack.org/enable-health-monitor", "false"),
    ("loadbalancer.openstack.org/health-monitor-delay", "5"),
    ("loadbalancer.openstack.org/health-monitor-timeout", "3"),
    ("loadbalancer.openstack.org/health-monitor-max-retries", "1"),
    ("loadbalancer.openstack.org/health-monitor-max-retries-down", "10"),
    ("loadbalancer.openstack.org/flavor-id", "f"),
    ("loadbalancer.openstack.org/availability-zone", "az 1"),
    ("loadbalancer.openstack.org/default-tls-container-ref", "https://barbican/v1/containers/c"),
    ("loadbalancer.openstack.org/load-balancer-id", "l"),
    ("loadbalancer.openstack.org/hostname", "web.example.com"),
    ("loadbalancer.openstack.org/node-selector", "zone=a, gpu"),
    // Written by cloud-provider-openstack and not read by anyone.
    ("loadbalancer.openstack.org/load-balancer-address", "not an address"),
    ("loadbalancer.openstack.org/of-a-later-release", "?"),
];

#[test]
fn what_is_understood_is_read() {
    let (read, findings) = parse(&ALL);
    assert_eq!(findings, []);
    let text = |text: &str| Some(Text::from(text));
    let expected = Annotations {
        project: text("802a1a93cb6f4d1e9bd6c1b8b1ee1b2a"),
        // Kuryr's name wins.
        timeout_client_data: Some(50_000),
        timeout_member_data: Some(50_000),
        timeout_member_connect: Some(5_000),
        timeout_tcp_inspect: Some(0),
        internal: Some(true),
        floating_network: text("77aa0b1e-0000-4000-8000-000000000001"),
        floating_subnet_name: text("public*"),
        floating_subnet: text("s"),
        floating_subnet_tags: Some(vec!["a".into(), "b".into()]),
        class: text("internet"),
        subnet: text("s"),
        member_subnet: text("s"),
        network: text("n"),
        port: text("p"),
        connection_limit: Some(-1),
        keep_floating_ip: Some(true),
        proxy_protocol: Some(KlbProxyProtocol::V2),
        x_forwarded_for: Some(true),
        algorithm: Some(Algorithm::SourceIpPort),
        health_monitor: Some(false),
        monitor_delay: Some(5),
        monitor_timeout: Some(3),
        monitor_max_retries: Some(1),
        monitor_max_retries_down: Some(10),
        flavor: text("f"),
        availability_zone: text("az 1"),
        tls_container: text("https://barbican/v1/containers/c"),
        load_balancer: text("l"),
        shared_group: text("team1/web"),
        hostname: text("web.example.com"),
        node_selector: Some([("gpu".into(), None), ("zone".into(), text("a"))].into()),
    };
    assert_eq!(read, expected);
}

#[test]
fn a_value_that_cannot_be_read_is_reported_alone() {
    use AnnotationProblem as P;
    for (name, value, problem) in [
        ("timeout-client-data", "soon", P::Number(0, 4_294_967_295)),
        ("timeout-client-data", "-1", P::Number(0, 4_294_967_295)),
        ("timeout-member-connect", "99999999999999999999", P::Number(0, 4_294_967_295)),
        ("connection-limit", "-2", P::Number(-1, 2_147_483_647)),
        ("health-monitor-max-retries", "11", P::Number(1, 10)),
        ("health-monitor-delay", "0", P::Number(1, 86_400)),
        ("x-forwarded-for", "yes", P::Flag),
        ("x-forwarded-for", "", P::Empty),
        ("proxy-protocol", "v3", P::Choice("v1, v2, true and false")),
        ("lb-method", "RANDOM", P::Choice("ROUND_ROBIN, LEAST_CONNECTIONS, SOURCE_IP and SOURCE_IP_PORT")),
        ("subnet-id", "", P::Empty),
        ("subnet-id", "a/b", P::Id),
        ("flavor-id", "ä", P::Id),
        ("floating-subnet", "~^public", P::Pattern),
        ("floating-subnet-tags", "!a", P::Pattern),
        ("floating-subnet-tags", ",", P::Empty),
        ("hostname", "Web", P::Hostname),
        ("hostname", "a..b", P::Hostname),
        ("hostname", "10.0.0.1", P::Hostname),
        ("node-selector", "=a", P::Selector),
        ("node-selector", "a=b=c", P::Selector),
        ("node-selector", " , ", P::Empty),
    ] {
        let (read, findings) = of_cpo(name, value);
        assert_eq!(read, Annotations::default(), "{name}={value}");
        let [Finding::Annotation { problem: found, value: quoted, .. }] = findings.as_slice() else {
            panic!("{name}={value}: {findings:?}")
        };
        assert_eq!((found, &**quoted), (&problem, value), "{name}");
        assert_eq!(findings[0].condition(), "Unsupported");
    }
}

#[test]
fn the_message_names_the_annotation_and_says_why() {
    let (_, findings) = of_cpo("x-forwarded-for", "yes");
    let message =
        "annotation loadbalancer.openstack.org/x-forwarded-for=\"yes\" is left out: it is neither true nor false";
    assert_eq!(findings[0].to_string(), message);
}

#[test]
fn one_that_cannot_be_read_does_not_hide_the_other_name() {
    let kuryr = ("openstack.org/kuryr-timeout-client-data", "x");
    let (read, findings) = parse(&[kuryr, ("loadbalancer.openstack.org/timeout-client-data", "7")]);
    assert_eq!((read.timeout_client_data, findings.len()), (Some(7), 1));
}

fn any_value() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,80}",
        "[0-9+-]{0,24}",
        "[a-zA-Z0-9_.=,~!*-]{0,300}",
        proptest::sample::select(vec!["true", "false", "v1", "SOURCE_IP", "0", "-1", " 1 ", "\u{0}"])
            .prop_map(Into::into),
    ]
}

proptest! {
    /// Whatever is written there, each annotation is either read or reported, and by itself.
    #[test]
    fn any_text_is_read_or_reported(values in proptest::collection::vec(any_value(), ALL.len())) {
        let all: Vec<(&str, &str)> = ALL.iter().zip(&values).map(|((name, _), value)| (*name, value.as_str())).collect();
        let (_, findings) = parse(&all);
        let mut alone = Vec::new();
        for one in &all {
            let (read, findings) = parse(&[*one]);
            let known = !one.0.ends_with("-address") && !one.0.ends_with("-release");
            let (said, is_read) = (findings.len(), usize::from(read != Annotations::default()));
            // What is taken for true is both.
            let both = usize::from([read.internal, read.keep_floating_ip].contains(&Some(true)) && said == 1);
            prop_assert_eq!(said + is_read, usize::from(known) + both, "{:?}", one);
            for finding in &findings {
                prop_assert!(finding.to_string().len() < 600);
            }
            alone.extend(findings);
        }
        prop_assert_eq!(findings.len(), alone.len());
        prop_assert!(findings.iter().all(|finding| alone.contains(finding)));
    }
}
