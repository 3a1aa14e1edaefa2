//! Wrong input ends the process: one line that names the flag, code 2.

use std::process::Command;

fn run(flags: &[&str]) -> (Option<i32>, String) {
    let program = env!("CARGO_BIN_EXE_gimbal-kubernetes-discoverer");
    let output = Command::new(program).args(["--backend-name", "node02"]).args(flags).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn wrong_input() {
    let dir = tempfile::tempdir().unwrap();
    let broken = dir.path().join("broken");
    std::fs::write(&broken, "clusters: [").unwrap();
    let broken = broken.to_str().unwrap();
    let tls = ["--tls-cert", broken, "--tls-key", broken, "--tls-ca", broken];
    for (flags, parts) in [
        (vec!["--kubeconfig", "/nowhere"], vec!["--kubeconfig", "/nowhere"]),
        (vec!["--kubeconfig", broken], vec!["--kubeconfig", broken]),
        (vec!["--gimbal-kubecfg-file", "x"], vec!["--gimbal-kubecfg-file", "holds no credentials"]),
        (vec!["--listen", "0.0.0.0:1"], vec!["--listen 0.0.0.0:1"]),
        (vec!["--writer", "http://10.0.0.1:1"], vec!["--writer http://10.0.0.1:1", "loopback"]),
        (vec!["--writer", "http://127.0.0.1:1,w"], vec!["--writer w: ", "https://host:port"]),
        (vec!["--namespaces", "A"], vec!["--namespaces", "lower-case"]),
        (vec!["--service-selector", "app in web"], vec!["--service-selector", "no label key"]),
        (vec!["--export", "sometimes"], vec!["--export", "opt-in"]),
        ([&tls[..], &["--writer", "https://w:1"]].concat(), vec!["--tls-cert", broken, "no certificate"]),
        (vec!["--nonsense"], vec!["--nonsense"]),
    ] {
        let (code, text) = run(&flags);
        assert_eq!(code, Some(2), "{flags:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{flags:?}: {text}");
        for part in parts {
            assert!(text.contains(part), "{flags:?}: {text} lacks {part}");
        }
    }
}
