//! Wrong input ends the process: one line that names the flag, code 2.
#![allow(clippy::unwrap_used)] // A panic is the report.

use std::process::Command;

fn run(flags: &[&str]) -> (Option<i32>, String) {
    let least = [
        "--writer=https://writer.example:7443",
        "--kubernetes-discoverer-image=k:1",
        "--openstack-discoverer-image=o:1",
        "--identity-prefix=spiffe://gimbal.example/backend/",
    ];
    let program = env!("CARGO_BIN_EXE_gimbal-operator");
    let output = Command::new(program).args(least).args(flags).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn wrong_input() {
    let dir = tempfile::tempdir().unwrap();
    let broken = dir.path().join("broken");
    std::fs::write(&broken, "clusters: [").unwrap();
    let broken = broken.to_str().unwrap();
    for (flags, parts) in [
        (["--kubeconfig", "/nowhere"], vec!["--kubeconfig", "/nowhere"]),
        (["--kubeconfig", broken], vec!["--kubeconfig", broken]),
        (["--lease-duration", "1s"], vec!["--lease-duration 1s", "whole seconds"]),
        (["--certificate-duration", "1m"], vec!["--certificate-duration 1m", "at least 1h"]),
        (["--image-pull-policy", "Sometimes"], vec!["--image-pull-policy", "IfNotPresent"]),
        (["--nonsense", "1"], vec!["--nonsense"]),
    ] {
        let (code, text) = run(&flags);
        assert_eq!(code, Some(2), "{flags:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{flags:?}: {text}");
        for part in parts {
            assert!(text.contains(part), "{flags:?}: {text} lacks {part}");
        }
    }
}
