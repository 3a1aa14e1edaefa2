//! What kuryr-controller and openstack-writer do.

use super::{Dashboard, Panel, Row, figure, graph, trouble};

pub(super) static WAY_BACK: Dashboard = Dashboard {
    name: "way-back",
    title: "Gimbal: the way back",
    choices: &[("cluster", "gimbal_openstack_writer_cluster_connected")],
    rows: &[
        Row { title: "Is anything wrong?", panels: &WRONG },
        Row { title: "Load balancers", panels: &LOAD_BALANCERS },
        Row { title: "OpenStack", panels: &OPENSTACK },
        Row { title: "Clusters", panels: &CLUSTERS },
    ],
};

const WRONG: [Panel; 6] = [
    figure("Controllers that lead", "One for each cluster is well.", &[("sum(gimbal_kuryr_controller_leading)", "")]),
    trouble(
        "Clusters that are away",
        "Nothing of them is changed in OpenStack.",
        &[("count(gimbal_openstack_writer_cluster_connected{cluster=~\"$cluster\"} == 0) or vector(0)", "")],
    ),
    trouble(
        "Rejected load balancers",
        "The policy of their cluster refuses them.",
        &[("sum(gimbal_openstack_writer_cluster_rejected{cluster=~\"$cluster\"}) or vector(0)", "")],
    ),
    trouble(
        "Stuck or held",
        "PENDING for too long in Octavia, or a removal that the guard holds.",
        &[("sum(gimbal_openstack_writer_load_balancers{state=~\"stuck|held|over_quota\"}) or vector(0)", "")],
    ),
    trouble(
        "Orphans",
        "Objects in OpenStack whose owner is gone.",
        &[("sum(gimbal_openstack_writer_orphans) or vector(0)", "")],
    ),
    trouble(
        "Late",
        "Load balancers that are not ready 15 minutes after they were wanted.",
        &[("sum(gimbal_kuryr_controller_load_balancers{state=~\"late|blocked\"}) or vector(0)", "")],
    ),
];

const LOAD_BALANCERS: [Panel; 6] = [
    graph(
        "Load balancers, by state",
        "As the controllers see them.",
        "short",
        &[("sum by (state) (gimbal_kuryr_controller_load_balancers)", "{{state}}")],
    ),
    graph(
        "Routers of Ingresses, by state",
        "With --ingress.",
        "short",
        &[("sum by (state) (gimbal_kuryr_controller_l7_routers)", "{{state}}")],
    ),
    graph(
        "p99 until one is ready",
        "From a change being offered to the writer until all that is offered of it is ready.",
        "s",
        &[(
            "histogram_quantile(0.99, sum by (le) (rate(gimbal_kuryr_controller_ready_seconds_bucket[$__rate_interval])))",
            "p99",
        )],
    ),
    graph(
        "p99 until one is served",
        "From when it was wanted until it was there and active.",
        "s",
        &[(
            "histogram_quantile(0.99, sum by (le, cluster) (rate(gimbal_openstack_writer_served_seconds_bucket{cluster=~\"$cluster\"}[$__rate_interval])))",
            "{{cluster}}",
        )],
    ),
    graph(
        "Not as they are wanted yet, by age",
        "How long they have been waiting.",
        "short",
        &[("sum by (age) (gimbal_openstack_writer_waiting{cluster=~\"$cluster\"})", "{{age}}")],
    ),
    graph(
        "Drift a minute",
        "What somebody else removed, changed or added.",
        "short",
        &[("sum by (kind) (60 * rate(gimbal_openstack_writer_drift_found_total[$__rate_interval]))", "{{kind}}")],
    ),
];

const OPENSTACK: [Panel; 6] = [
    graph(
        "Calls a second",
        "By outcome.",
        "short",
        &[(
            "sum by (api, outcome) (rate(gimbal_openstack_writer_calls_total[$__rate_interval]))",
            "{{api}} {{outcome}}",
        )],
    ),
    graph(
        "Time of a call",
        "The mean of each kind.",
        "s",
        &[(
            "sum by (api, verb) (rate(gimbal_openstack_writer_call_seconds_total[$__rate_interval])) / sum by (api, verb) (rate(gimbal_openstack_writer_calls_total[$__rate_interval]))",
            "{{api}} {{verb}}",
        )],
    ),
    graph(
        "Changes a second",
        "Those that were sent, those that were refused, and those whose answer was lost.",
        "short",
        &[
            ("sum(rate(gimbal_openstack_writer_changes_total[$__rate_interval]))", "sent"),
            ("sum(rate(gimbal_openstack_writer_changes_refused_total[$__rate_interval]))", "refused"),
            ("sum(rate(gimbal_openstack_writer_changes_unknown_total[$__rate_interval]))", "unknown"),
        ],
    ),
    graph(
        "In a PENDING status",
        "For longer than that many seconds.",
        "short",
        &[("sum by (seconds) (gimbal_openstack_writer_pending)", "{{seconds}} s")],
    ),
    graph(
        "Left of the quota",
        "Of the project of each cluster.",
        "short",
        &[("min by (cluster, resource) (kuryr_quota_free_count{cluster=~\"$cluster\"})", "{{cluster}} {{resource}}")],
    ),
    graph(
        "Orphans removed an hour",
        "Owners that were gone.",
        "short",
        &[(
            "sum by (cluster) (3600 * rate(gimbal_openstack_writer_orphans_removed_total{cluster=~\"$cluster\"}[$__rate_interval]))",
            "{{cluster}}",
        )],
    ),
];

const CLUSTERS: [Panel; 3] = [
    graph(
        "Wanted load balancers",
        "By cluster.",
        "short",
        &[("max by (cluster) (gimbal_openstack_writer_cluster_entries{cluster=~\"$cluster\"})", "{{cluster}}")],
    ),
    graph(
        "Writes to Kubernetes a second",
        "Of the controllers, by what they change.",
        "short",
        &[("sum by (what, code) (rate(gimbal_kuryr_controller_writes_total[$__rate_interval]))", "{{what}} {{code}}")],
    ),
    graph(
        "Refused streams a second",
        "Of controllers, by reason.",
        "short",
        &[("sum by (reason) (rate(gimbal_openstack_writer_refused_streams_total[$__rate_interval]))", "{{reason}}")],
    ),
];
