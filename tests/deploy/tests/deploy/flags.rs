//! Flags in rendered deployments are those of the programs.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Output};

use gimbal_deploy_tests::{Chart, PROGRAMS, arguments, list, of_kind, text};
use gimbal_testkit::process::binary;
use serde_json::Value;

/// Flags that no chart sets: in the cluster that a program serves, its pod has what they say.
const NOT_SET: [(&str, &[&str]); 6] = [
    ("gimbal-writer", &["kubeconfig", "plaintext", "namespace", "leader-election"]),
    ("gimbal-kubernetes-discoverer", &[]),
    ("gimbal-openstack-discoverer", &["os-cloud", "openstack-certificate-authority"]),
    ("gimbal-kuryr-controller", &["kubeconfig", "namespace", "leader-election"]),
    ("gimbal-openstack-writer", &["plaintext", "os-cloud", "openstack-certificate-authority"]),
    ("gimbal-operator", &["kubeconfig", "namespace", "leader-election"]),
];

/// Flags whose default in a chart is another one than the program's.
const OTHER_DEFAULTS: [&str; 4] = ["listen", "admin-listen", "log-format", "cluster-ip-services"];

fn run(program: &str, args: &[impl AsRef<std::ffi::OsStr>]) -> Output {
    run_with(program, args, Vec::new())
}

fn run_with(program: &str, args: &[impl AsRef<std::ffi::OsStr>], variables: Vec<(&str, &str)>) -> Output {
    Command::new(binary(program).unwrap()).args(args).env_clear().envs(variables).output().unwrap()
}

/// Returns the variables of a pod, as kubelet would set them.
fn variables(deployment: &Value) -> Vec<(&str, &str)> {
    let all = deployment["spec"]["template"]["spec"]["containers"][0]["env"].as_array();
    let value = |variable: &Value| {
        assert_eq!(variable["valueFrom"]["fieldRef"]["fieldPath"], "status.podIP", "{variable}");
        "10.0.0.7"
    };
    all.into_iter().flatten().map(|variable| (text(&variable["name"]), value(variable))).collect()
}

/// Returns the flags of a program with their defaults, as `--help` shows them.
fn flags(program: &str) -> BTreeMap<String, Option<String>> {
    let help = String::from_utf8(run(program, &["--help"]).stdout).unwrap();
    let mut flags = BTreeMap::new();
    let mut last = String::new();
    for line in help.lines().map(str::trim) {
        if let Some(flag) = line.strip_prefix("--") {
            last = flag.split([' ', '=']).next().unwrap().to_owned();
            flags.insert(last.clone(), None);
        } else if let Some(default) = line.strip_prefix("[default: ") {
            flags.insert(last.clone(), Some(default.trim_end_matches(']').to_owned()));
        }
    }
    assert!(flags.len() > 5, "{program}: {flags:?}");
    flags
}

fn deployment(objects: &[Value]) -> &Value {
    let found: Vec<&Value> = of_kind(objects, "Deployment").collect();
    assert_eq!(found.len(), 1);
    found[0]
}

fn set_by(chart: &Chart) -> BTreeMap<String, String> {
    let objects = chart.render().unwrap();
    let deployment = deployment(&objects);
    let arguments = arguments(deployment).into_iter().map(|arg| arg.trim_start_matches("--"));
    let pairs = arguments.map(|arg| arg.split_once('=').unwrap_or((arg, "")));
    let pairs = pairs.map(|(flag, value)| (flag.to_owned(), value.to_owned()));
    let flag = |name: &str| name.trim_start_matches("GIMBAL_").to_lowercase().replace('_', "-");
    pairs.chain(variables(deployment).into_iter().map(|(name, value)| (flag(name), value.to_owned()))).collect()
}

#[test]
fn every_flag_is_set_by_a_value_or_needs_none() {
    for (program, not_set) in NOT_SET {
        let set: BTreeSet<String> =
            Chart::examples(program).unwrap().iter().flat_map(set_by).map(|(flag, _)| flag).collect();
        let known = set.iter().map(String::as_str).chain(not_set.iter().copied()).collect::<BTreeSet<_>>();
        let flags = flags(program);
        assert_eq!(known, flags.keys().map(String::as_str).collect(), "{program}");
        assert!(not_set.iter().all(|flag| !set.contains(*flag)), "{program}");
    }
}

#[test]
fn defaults_are_those_of_the_programs() {
    let mut count = 0;
    for program in PROGRAMS {
        let flags = flags(program);
        for (flag, value) in set_by(&Chart::example(program, "minimal.yaml")) {
            if let Some(Some(default)) = flags.get(&flag).filter(|_| !OTHER_DEFAULTS.contains(&&*flag)) {
                assert_eq!(&value, default, "{program} --{flag}");
                count += 1;
            }
        }
    }
    assert!(count > 20, "{count}");
}

/// The program parses its flags and then misses the first file that a pod would have; one without files of its own, the cluster.
#[test]
fn the_programs_take_the_flags_of_their_deployments() {
    for program in PROGRAMS {
        for chart in Chart::examples(program).unwrap() {
            let objects = chart.render().unwrap();
            let deployment = deployment(&objects);
            let output = run_with(program, &arguments(deployment), variables(deployment));
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{chart:?}: {said}");
            let mounts = list(&deployment["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]);
            let folders: Vec<&str> = mounts.map(|mount| text(&mount["mountPath"])).collect();
            let misses = folders.iter().any(|folder| said.contains(&format!("{folder}/")));
            assert!(misses || (folders.is_empty() && said.contains("--kubeconfig")), "{chart:?}: {said}");
        }
    }
}

/// What a chart makes of `config` is a file that the program takes: it goes on to the next file, which is missing.
#[test]
fn the_programs_take_the_configuration_of_their_charts() {
    for (program, kind, key, part) in [
        ("gimbal-writer", "Secret", "writer.yaml", "stringData"),
        ("gimbal-openstack-writer", "ConfigMap", "clusters.yaml", "data"),
    ] {
        for chart in Chart::examples(program).unwrap() {
            let objects = chart.render().unwrap();
            let Some(files) = of_kind(&objects, kind).next() else { continue };
            let folder = tempfile::tempdir().unwrap();
            for (name, content) in files[part].as_object().unwrap() {
                std::fs::write(folder.path().join(name), text(content)).unwrap();
            }
            let config = format!("--config={}", folder.path().join(key).display());
            let mut args = vec![config];
            args.extend(
                arguments(deployment(&objects))
                    .into_iter()
                    .filter(|arg| !arg.starts_with("--config"))
                    .map(str::to_owned),
            );
            let output = run(program, &args);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains("/tls/") || said.contains("/credentials"), "{chart:?}: {said}");
            std::fs::write(folder.path().join(key), "misspelt: true").unwrap();
            let said = String::from_utf8_lossy(&run(program, &args).stderr).into_owned();
            assert!(said.contains("misspelt"), "{said}");
        }
    }
}
