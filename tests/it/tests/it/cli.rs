//! The command lines, as scripts and users see them.

use std::path::Path;
use std::time::Duration;

use gimbal_testkit::assets::Asset;
use gimbal_testkit::process::{binary, free_port};
use gimbal_testkit::{Pki, Process, San};
use gimbal_tests::{Mirror, Scene, expect_log, expect_metric, get, slice_of, svc};

const WRITER: &str = "gimbal-writer";
const DISCOVERER: &str = "gimbal-kubernetes-discoverer";

/// Runs a program to its end. Returns exit code, time and output.
async fn run(dir: &Path, name: &str, args: &[String], env: &[(&str, &str)]) -> (Option<i32>, Duration, String) {
    let log = dir.join("run.log");
    std::fs::remove_file(&log).ok();
    let mut process = Process::start_with(name, &binary(name).unwrap(), args, env, &log).unwrap();
    let exit = process.wait_exit(Duration::from_secs(10)).await.unwrap_or_else(|e| panic!("{name} {args:?}: {e:#}"));
    (exit.code, exit.after, process.log())
}

struct Files {
    dir: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_input_is_one_line_that_names_it_and_exit_code_2() {
    let files = Files::new();
    let pki = Pki::create(files.dir.path().join("pki")).unwrap();
    let (one, other) = (pki.issue("one", &[San::Dns("localhost")]).unwrap(), pki.server("other").unwrap());
    let (cert, key, wrong_key, ca) =
        (one.cert.display(), one.key.display(), other.key.display(), pki.ca().display().to_string());
    let tls = format!("--tls-cert {cert} --tls-key {key} --tls-ca {ca}");
    let kubeconfig = files.write(
        "kubeconfig",
        "{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}], \
         contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {token: t}}]}",
    );
    let no_yaml = files.write("no-yaml", "{[ this is no YAML");
    let empty = files.write("empty", "");
    let config = files.write("good.yaml", "backends: [{name: a, identity: 'spiffe://x/a'}]\n");
    let unknown = files.write("unknown.yaml", "backends:\n- name: a\n  identity: spiffe://x/a\n  adresses: {}\n");
    let bad_name = files.write("name.yaml", "backends:\n- identity: spiffe://x/a\n  name: Bad_Name\n");
    let twice = files.write(
        "twice.yaml",
        "backends:\n- {name: a, identity: 'spiffe://x/a'}\n- {name: a, identity: 'spiffe://x/b'}\n",
    );
    let good = format!("--config {config} --kubeconfig {kubeconfig} {tls}");
    let agent = format!("--backend-name a --kubeconfig {kubeconfig}");
    let none = "--admin-listen 127.0.0.1:0";
    let table: Vec<(&str, String, Vec<&str>)> = vec![
        // The writer's arguments.
        (WRITER, String::new(), vec!["--config", "required"]),
        (WRITER, "--nonsense".into(), vec!["--nonsense"]),
        (WRITER, format!("--config /no/such/file {tls}"), vec!["/no/such/file", "No such file"]),
        (WRITER, format!("--config {unknown} {tls}"), vec!["unknown.yaml:4:3", "adresses"]),
        (WRITER, format!("--config {bad_name} {tls}"), vec!["name.yaml:3:9", "Bad_Name"]),
        (WRITER, format!("--config {twice} {tls}"), vec!["twice.yaml:3:", "a"]),
        (WRITER, format!("--config {no_yaml} {tls}"), vec!["no-yaml:1"]),
        (WRITER, format!("--config {empty} {tls}"), vec!["empty"]),
        (WRITER, format!("--config {config} --kubeconfig /no/such/file {tls}"), vec!["/no/such/file", "No such file"]),
        (WRITER, format!("--config {config} --kubeconfig {no_yaml} {tls}"), vec!["kubeconfig", "no-yaml"]),
        (WRITER, format!("--config {config} --kubeconfig {empty} {tls}"), vec!["kubeconfig", "empty"]),
        (WRITER, format!("--config {config} --kubeconfig {kubeconfig}"), vec!["--tls-cert", "--plaintext"]),
        (
            WRITER,
            format!(
                "--config {config} --kubeconfig {kubeconfig} --tls-cert /no/such/cert --tls-key {key} --tls-ca {ca}"
            ),
            vec!["--tls-cert", "/no/such/cert", "no such file"],
        ),
        (
            WRITER,
            format!(
                "--config {config} --kubeconfig {kubeconfig} --tls-cert {cert} --tls-key {wrong_key} --tls-ca {ca}"
            ),
            vec!["--tls-key", "other.key", "one.pem"],
        ),
        (
            WRITER,
            format!("--config {config} --kubeconfig {kubeconfig} --tls-cert {cert} --tls-key {key} --tls-ca {empty}"),
            vec!["--tls-ca", "empty", "no certificate"],
        ),
        (WRITER, format!("--kubeconfig {kubeconfig} --plaintext --listen 0.0.0.0:0"), vec!["--plaintext", "0.0.0.0:0"]),
        (WRITER, format!("{good} --plaintext"), vec!["--plaintext", "--tls-cert"]),
        (WRITER, format!("{good} --endpoints-api slices"), vec!["--endpoints-api", "endpointslices"]),
        (WRITER, format!("{good} --write-qps -1"), vec!["--write-qps"]),
        (WRITER, format!("{good} --num-threads 0"), vec!["--write-concurrency", "0"]),
        (WRITER, format!("{good} --write-latency-target fast"), vec!["--write-latency-target", "fast"]),
        (WRITER, format!("{good} --write-fanout -1"), vec!["--write-fanout"]),
        (WRITER, format!("{good} --watchers 0"), vec!["--watchers", "0"]),
        (
            WRITER,
            format!("{good} --endpointslice-updates-batch-period 11s"),
            vec!["--endpointslice-updates-batch-period", "11s", "at most 10s"],
        ),
        (WRITER, format!("{good} --worker-threads 0"), vec!["--worker-threads", "0"]),
        (WRITER, format!("{good} --leader-election maybe"), vec!["--leader-election", "maybe"]),
        (WRITER, format!("{good} --listen nowhere"), vec!["--listen", "nowhere"]),
        (WRITER, format!("{good} --comparison-interval 30"), vec!["--comparison-interval", "unit"]),
        // The discoverer's arguments.
        (DISCOVERER, String::new(), vec!["--backend-name"]),
        (DISCOVERER, "--backend-name Node_02".into(), vec!["--backend-name", "Node_02"]),
        (DISCOVERER, "--backend-name 2node".into(), vec!["--backend-name", "2node"]),
        (DISCOVERER, "--backend-name a --kubeconfig /no/such/file".into(), vec!["--kubeconfig", "/no/such/file"]),
        (DISCOVERER, format!("--backend-name a --kubeconfig {no_yaml}"), vec!["--kubeconfig", "no-yaml"]),
        (DISCOVERER, format!("--backend-name a --kubeconfig {empty}"), vec!["--kubeconfig", "empty"]),
        (DISCOVERER, format!("{agent} --writer http://192.0.2.1:7443"), vec!["--writer", "loopback"]),
        (DISCOVERER, format!("{agent} --writer https://localhost:7443"), vec!["--writer", "--tls-cert"]),
        (DISCOVERER, format!("{agent} --writer localhost:7443 {tls}"), vec!["--writer", "https://"]),
        (DISCOVERER, format!("{agent} --tls-cert {cert} --tls-key {key}"), vec!["--tls-ca"]),
        (
            DISCOVERER,
            format!("{agent} --writer https://localhost:1 --tls-cert {cert} --tls-key {wrong_key} --tls-ca {ca}"),
            vec!["--tls-key", "other.key", "one.pem"],
        ),
        (
            DISCOVERER,
            format!("{agent} --writer https://localhost:1 --tls-cert {cert} --tls-key {key} --tls-ca /no/such/ca"),
            vec!["--tls-ca", "/no/such/ca", "no such file"],
        ),
        (DISCOVERER, format!("{agent} --listen 0.0.0.0:0"), vec!["--listen", "0.0.0.0:0"]),
        (DISCOVERER, format!("{agent} --namespaces Team"), vec!["--namespaces", "Team"]),
        (DISCOVERER, format!("{agent} --gimbal-kubecfg-file x"), vec!["--gimbal-kubecfg-file"]),
    ];
    for (name, line, parts) in &table {
        let mut args = words(line);
        if !line.is_empty() && !line.contains("--nonsense") {
            args.extend(words(none));
        }
        let (code, after, said) = run(files.dir.path(), name, &args, &[]).await;
        assert_eq!(code, Some(2), "{name} {line}: {said}");
        assert_eq!(said.lines().count(), 1, "{name} {line}: {said}");
        assert!(said.starts_with("error: "), "{name} {line}: {said}");
        // One second on an idle machine.
        assert!(after < Duration::from_secs(5), "{name} {line} took {after:?}");
        for part in parts {
            assert!(said.contains(part), "{name} {line}: no {part:?} in {said}");
        }
    }

    // A port that is taken is not wrong input, but the error is as clear.
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (name, line) in [(WRITER, format!("{good} {none}")), (DISCOVERER, format!("{agent} {none}"))] {
        let (code, _, said) = run(files.dir.path(), name, &words(&format!("{line} --listen {address}")), &[]).await;
        let last = said.lines().last().unwrap();
        assert_eq!(code, Some(1), "{said}");
        assert!(last.starts_with("error: --listen") && last.contains(&address), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_flag_is_taken_by_its_names_and_by_its_variable() {
    let files = Files::new();
    // All flags are right but one file is missing: it is named only if everything else was understood.
    let writer = [
        "--config /missing --kubeconfig k --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 --tls-cert c --tls-key k --tls-ca a \
         --endpoints-api endpointslices --write-qps 100 --write-concurrency 8 --namespace gimbal --leader-election true",
        "--config /missing --gimbal-kubecfg-file k --plaintext --endpoints-api both --num-threads 8 --leader-election false",
        "--config /missing --endpoints-api endpoints --write-qps 0",
        "--config /missing --write-latency-target 250ms --write-fanout 100000000 --watchers 20",
        "--config /missing --endpointslice-updates-batch-period 10s",
    ];
    for line in writer {
        let (code, _, said) = run(files.dir.path(), WRITER, &words(line), &[]).await;
        assert_eq!(code, Some(2));
        assert!(said.contains("/missing: cannot be read"), "{line}: {said}");
    }
    let discoverer = [
        "--backend-name b --kubeconfig /missing --writer http://127.0.0.1:1 --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 \
         --namespaces a,team-* --exclude-namespaces *-test",
        "--backend-name b --discover-kubecfg-file /missing",
    ];
    for line in discoverer {
        let (code, _, said) = run(files.dir.path(), DISCOVERER, &words(line), &[]).await;
        assert_eq!(code, Some(2));
        assert!(said.contains("/missing: cannot be read"), "{line}: {said}");
    }
    let variables = [("GIMBAL_CONFIG", "/missing-too"), ("GIMBAL_PLAINTEXT", "true")];
    let (_, _, said) = run(files.dir.path(), WRITER, &[], &variables).await;
    assert!(said.contains("/missing-too: cannot be read"), "{said}");
    let variables = [("GIMBAL_BACKEND_NAME", "b"), ("GIMBAL_KUBECONFIG", "/missing-too")];
    let (_, _, said) = run(files.dir.path(), DISCOVERER, &[], &variables).await;
    assert!(said.contains("/missing-too: cannot be read"), "{said}");
    // The command line outranks the environment.
    let (_, _, said) = run(files.dir.path(), DISCOVERER, &words("--kubeconfig /missing"), &variables).await;
    assert!(said.contains("/missing: cannot be read"), "{said}");

    // Every flag of the help names its variable.
    for name in [WRITER, DISCOVERER] {
        let (code, _, help) = run(files.dir.path(), name, &words("--help"), &[]).await;
        assert_eq!(code, Some(0));
        for flag in help.split_whitespace().filter_map(|word| word.strip_prefix("--")) {
            let flag: String = flag.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
            let variable = format!("[env: GIMBAL_{}", flag.to_uppercase().replace('-', "_"));
            let own = matches!(flag.as_str(), "help" | "version" | "");
            assert!(own || help.contains(&variable), "{name}: --{flag} has no {variable}]");
        }
        let (code, _, version) = run(files.dir.path(), name, &words("--version"), &[]).await;
        assert_eq!((code, version.starts_with(name)), (Some(0), true), "{version}");
    }
}

#[test]
fn help_that_cannot_be_written_is_one_line() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut help = std::process::Command::new(binary(WRITER).unwrap());
    let ended = help.arg("--help").stdout(full).stderr(std::process::Stdio::piped()).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.starts_with("error: cannot write to standard output: ") && said.lines().count() == 1, "{said}");
}

#[test]
fn kubectl_takes_gimbalctl_as_a_plug_in() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(binary("gimbalctl").unwrap(), dir.path().join("kubectl-gimbal")).unwrap();
    let mut kubectl = std::process::Command::new(Asset::Kubectl.path().unwrap());
    let ended = kubectl.args(["gimbal", "why", "no-namespace"]).env("PATH", dir.path()).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.code() == Some(2) && said.contains("write it as namespace/name"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn both_answer_on_their_admin_ports_and_say_goodbye_when_asked_to_end() {
    let scene = Scene::start().await.unwrap();
    scene.put(&svc("team1", "web", &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", "web", "a", 1, 3)).await.unwrap();
    let config = scene.config(&["node02"], "").unwrap();
    let port = free_port().unwrap();
    let mut writer = scene.writer_at(port, &config, &[]).await.unwrap();
    let mut discoverer = scene.discoverer("node02", &scene.source, port, &[]).unwrap();
    discoverer.ready().await.unwrap();
    let mirror = Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();
    for (admin_port, name) in [(writer.admin_port, "gimbal_writer_"), (discoverer.admin_port, "gimbal_discoverer_")] {
        assert_eq!(get(admin_port, "/healthz").await.unwrap(), (200, "ok\n".into()));
        assert_eq!(get(admin_port, "/readyz").await.unwrap(), (200, "ready\n".into()));
        let (status, metrics) = get(admin_port, "/metrics").await.unwrap();
        assert_eq!(status, 200);
        assert!(metrics.contains(&format!("# HELP {name}")) && metrics.ends_with("# EOF\n"), "{metrics}");
        assert_eq!(get(admin_port, "/nothing").await.unwrap().0, 404);
    }

    let exit = discoverer.process.terminate(Duration::from_secs(5)).await.unwrap();
    assert_eq!(exit.code, Some(0), "{}", discoverer.process.log_tail());
    expect_log(&writer.process, &["the agent says goodbye", "node02", "Shutdown"]).await.unwrap();

    let discoverer = scene.discoverer("node02", &scene.source, port, &[]).unwrap();
    expect_metric(discoverer.admin_port, "gimbal_discoverer_connected", "", 1.0).await.unwrap();
    let exit = writer.process.terminate(Duration::from_secs(5)).await.unwrap();
    assert_eq!(exit.code, Some(0), "{}", writer.process.log_tail());
    expect_log(&discoverer.process, &["ended the stream", "Shutdown"]).await.unwrap();
    // Readiness means that the source is read, whether or not there is a writer; health means that the process works.
    let ready = get(discoverer.admin_port, "/readyz").await.unwrap();
    assert_eq!(ready, (200, "ready\n".into()));
    expect_metric(discoverer.admin_port, "gimbal_discoverer_connected", "", 0.0).await.unwrap();
    assert_eq!(get(discoverer.admin_port, "/healthz").await.unwrap().0, 200);

    // Neither end removed anything, and it recovers by itself.
    mirror.expect_unchanged(&scene.gimbal, Duration::from_millis(300)).await.unwrap();
    let _writer = scene.writer_at(port, &config, &[]).await.unwrap();
    expect_metric(discoverer.admin_port, "gimbal_discoverer_connected", "", 1.0).await.unwrap();
}
