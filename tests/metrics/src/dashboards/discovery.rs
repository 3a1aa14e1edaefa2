//! What the writer and the discoverers do.

use super::{Dashboard, Panel, Row, figure, graph, trouble};

pub(super) static DISCOVERY: Dashboard = Dashboard {
    name: "discovery",
    title: "Gimbal: discovery",
    choices: &[("backend", "gimbal_writer_backend_connected")],
    rows: &[
        Row { title: "Is anything wrong?", panels: &WRONG },
        Row { title: "How long changes take", panels: &LATENCY },
        Row { title: "Backends", panels: &BACKENDS },
        Row { title: "Writes to the Gimbal cluster", panels: &WRITES },
        Row { title: "Streams", panels: &STREAMS },
        Row { title: "Discoverers", panels: &DISCOVERERS },
        Row { title: "Processes", panels: &PROCESSES },
    ],
};

const WRONG: [Panel; 6] = [
    figure("Writers that lead", "One is well. Without one, nothing is written.", &[("sum(gimbal_writer_leading)", "")]),
    trouble(
        "Backends that are away",
        "No discoverer of them is connected. What they published stays as it is.",
        &[("count(gimbal_writer_backend_connected{backend=~\"$backend\"} == 0) or vector(0)", "")],
    ),
    trouble(
        "Rejected Services",
        "They are not published. `gimbalctl services --trouble` says why.",
        &[("sum(gimbal_writer_backend_rejected{backend=~\"$backend\"}) or vector(0)", "")],
    ),
    trouble(
        "Held endpoints",
        "The mass-change guard holds their removal. `gimbalctl backends` names each hold.",
        &[("sum(gimbal_writer_backend_held_endpoints{backend=~\"$backend\"}) or vector(0)", "")],
    ),
    trouble(
        "Differences found",
        "A full comparison found objects that differed without a reason to.",
        &[("sum(increase(gimbal_writer_differences_found_total[$__range])) or vector(0)", "")],
    ),
    figure(
        "Days of the first certificate",
        "How long the writer's certificate, or the first of the discoverers', is valid.",
        &[(
            "(min(gimbal_writer_tls_certificate_not_after_seconds or gimbal_discoverer_tls_certificate_not_after_seconds) - time()) / 86400",
            "",
        )],
    ),
];

const LATENCY: [Panel; 6] = [
    graph(
        "p50 of a change",
        "From its cause in the source until the API server of the Gimbal cluster had accepted it.",
        "s",
        &[(
            "histogram_quantile(0.5, sum by (le, backend) (rate(gimbal_propagation_seconds_bucket{backend=~\"$backend\",leg=\"total\",outcome=\"written\"}[$__rate_interval])))",
            "{{backend}}",
        )],
    ),
    graph(
        "p99 of a change",
        "99 of 100 changes took no longer. Points lead to traces, where those are on.",
        "s",
        &[(
            "histogram_quantile(0.99, sum by (le, backend) (rate(gimbal_propagation_seconds_bucket{backend=~\"$backend\",leg=\"total\",outcome=\"written\"}[$__rate_interval])))",
            "{{backend}}",
        )],
    ),
    graph(
        "p99 by leg",
        "Where changes wait: in the source, in the discoverer, in the writer, or at the API server.",
        "s",
        &[(
            "histogram_quantile(0.99, sum by (le, leg) (rate(gimbal_propagation_seconds_bucket{backend=~\"$backend\",leg!=\"total\",outcome=\"written\"}[$__rate_interval])))",
            "{{leg}}",
        )],
    ),
    graph(
        "Changes a second, by outcome",
        "Written, rejected, or held by the guard.",
        "short",
        &[(
            "sum by (outcome) (rate(gimbal_propagation_seconds_count{backend=~\"$backend\",leg=\"total\"}[$__rate_interval]))",
            "{{outcome}}",
        )],
    ),
    graph(
        "Oldest change that waits",
        "It is neither written, nor rejected, nor held yet.",
        "s",
        &[("max(gimbal_writer_oldest_pending_seconds)", "oldest")],
    ),
    graph(
        "Since the source was heard",
        "A source that is silent may have changed.",
        "s",
        &[(
            "max by (backend, kind) (gimbal_writer_backend_source_age_seconds{backend=~\"$backend\"})",
            "{{backend}} {{kind}}",
        )],
    ),
];

const BACKENDS: [Panel; 6] = [
    graph(
        "Services",
        "What each backend offers.",
        "short",
        &[("max by (backend) (gimbal_writer_backend_services{backend=~\"$backend\"})", "{{backend}}")],
    ),
    graph(
        "Endpoints",
        "Those in the Gimbal cluster.",
        "short",
        &[("max by (backend) (gimbal_writer_backend_endpoints{backend=~\"$backend\"})", "{{backend}}")],
    ),
    graph(
        "Rejected Services, by reason",
        "They are not published.",
        "short",
        &[(
            "max by (backend, reason) (gimbal_writer_backend_rejected{backend=~\"$backend\"})",
            "{{backend}} {{reason}}",
        )],
    ),
    graph(
        "Held endpoints",
        "The guard holds their removal, or their loss of readiness.",
        "short",
        &[("max by (backend) (gimbal_writer_backend_held_endpoints{backend=~\"$backend\"})", "{{backend}}")],
    ),
    graph(
        "For how long it is lost",
        "By its connection or its source.",
        "s",
        &[("max by (backend) (gimbal_writer_backend_lost_seconds{backend=~\"$backend\"})", "{{backend}}")],
    ),
    graph(
        "Share of its quota",
        "What waits for room is not published.",
        "percentunit",
        &[(
            "max by (backend, measure) (gimbal_writer_backend_quota_used{backend=~\"$backend\"} / gimbal_writer_backend_quota_limit)",
            "{{backend}} {{measure}}",
        )],
    ),
];

const WRITES: [Panel; 6] = [
    graph(
        "Writes a second",
        "By what the API server answered.",
        "short",
        &[("sum by (verb, code) (rate(gimbal_writer_writes_total[$__rate_interval]))", "{{verb}} {{code}}")],
    ),
    graph(
        "p99 of a write",
        "What the API server takes.",
        "s",
        &[(
            "histogram_quantile(0.99, sum by (le, verb) (rate(gimbal_writer_write_seconds_bucket[$__rate_interval])))",
            "{{verb}}",
        )],
    ),
    graph(
        "Waiting and under way",
        "Services to be written, and those that are being written.",
        "short",
        &[("sum(gimbal_writer_pending)", "waiting"), ("sum(gimbal_writer_in_flight)", "under way")],
    ),
    graph(
        "Writes side by side",
        "How many may be under way, by what the API server takes well.",
        "short",
        &[("max(gimbal_writer_concurrency)", "at most")],
    ),
    graph(
        "What writes wait for",
        "Seconds of a second in which one could have gone and had to wait.",
        "s",
        &[("sum by (reason) (rate(gimbal_writer_write_wait_seconds_total[$__rate_interval]))", "{{reason}}")],
    ),
    graph(
        "Failures of watches",
        "Changes in the Gimbal cluster reach the writer by watches.",
        "short",
        &[(
            "sum by (kind, reason) (rate(gimbal_writer_watch_failures_total[$__rate_interval]))",
            "{{kind}} {{reason}}",
        )],
    ),
];

const STREAMS: [Panel; 3] = [
    graph(
        "Refused streams a second",
        "A standby refuses every stream (NotLeader).",
        "short",
        &[("sum by (reason) (rate(gimbal_writer_refused_streams_total[$__rate_interval]))", "{{reason}}")],
    ),
    graph(
        "Ended and broken streams a second",
        "By the writer with a reason, or by an error.",
        "short",
        &[
            (
                "sum by (backend, reason) (rate(gimbal_writer_goodbyes_total{backend=~\"$backend\"}[$__rate_interval]))",
                "{{backend}} {{reason}}",
            ),
            (
                "sum by (backend) (rate(gimbal_writer_broken_streams_total{backend=~\"$backend\"}[$__rate_interval]))",
                "{{backend}} broken",
            ),
        ],
    ),
    graph(
        "Failed TLS handshakes a second",
        "A peer without a certificate that counts here.",
        "short",
        &[("sum by (reason) (rate(gimbal_writer_handshake_failures_total[$__rate_interval]))", "{{reason}}")],
    ),
];

const DISCOVERERS: [Panel; 6] = [
    graph("Offered Services", "By discoverer.", "short", &[("gimbal_discoverer_services", "{{instance}}")]),
    graph(
        "On their way to the writer",
        "Services whose change is not acknowledged yet.",
        "short",
        &[("gimbal_discoverer_pending", "{{instance}}")],
    ),
    graph(
        "Left out, by reason",
        "Services, slices and endpoints that the discoverer does not offer.",
        "short",
        &[("sum by (reason) (gimbal_discoverer_skipped)", "{{reason}}")],
    ),
    graph(
        "Failed lists and watches a second",
        "Of the source.",
        "short",
        &[(
            "sum by (kind, reason) (rate(gimbal_discoverer_source_failures_total[$__rate_interval]))",
            "{{kind}} {{reason}}",
        )],
    ),
    graph(
        "Calls to clouds a second",
        "By kind and result.",
        "short",
        &[(
            "sum by (kind, result) (rate(gimbal_discoverer_cloud_calls_total[$__rate_interval]))",
            "{{kind}} {{result}}",
        )],
    ),
    graph("Time of a poll of a cloud", "The last one.", "s", &[("gimbal_discoverer_poll_seconds", "{{instance}}")]),
];

const PROCESSES: [Panel; 2] = [
    graph(
        "Memory",
        "That each process holds.",
        "bytes",
        &[("process_resident_memory_bytes{job=~\".*gimbal.*\"}", "{{job}} {{instance}}")],
    ),
    graph(
        "Files and connections",
        "That each process has open.",
        "short",
        &[("process_open_fds{job=~\".*gimbal.*\"}", "{{job}} {{instance}}")],
    ),
];
