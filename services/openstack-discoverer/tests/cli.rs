//! Wrong input ends the process: one line that names the flag, code 2.
#![allow(clippy::unwrap_used)] // A panic is the report.

use std::process::Command;

fn run(flags: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let program = env!("CARGO_BIN_EXE_gimbal-openstack-discoverer");
    let mut command = Command::new(program);
    command.env_clear().envs(variables.iter().copied());
    let output = command.args(["--backend-name", "osp1"]).args(flags).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn wrong_input() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().to_str().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "no certificate").unwrap();
    let file = file.to_str().unwrap();
    let variables =
        [("OS_AUTH_URL", "http://127.0.0.1:1/v3"), ("OS_USERNAME", "u"), ("OS_PASSWORD", "not-to-be-repeated")];
    for (flags, variables, parts) in [
        (vec!["--credentials", "/nowhere"], vec![], vec!["--credentials", "/nowhere"]),
        (vec!["--credentials", empty], vec![], vec!["--credentials", empty, "username"]),
        (vec!["--os-cloud", "none-such"], vec![], vec!["--os-cloud", "clouds.yaml"]),
        (vec![], vec![], vec!["no --credentials and no --os-cloud", "OS_USERNAME"]),
        (vec![], [&variables[1..], &[("OS_AUTH_URL", "k")]].concat(), vec!["OS_AUTH_URL"]),
        (vec!["--openstack-certificate-authority", file], variables.to_vec(), vec![file, "no certificate"]),
        (vec!["--gimbal-kubecfg-file", "x"], variables.to_vec(), vec!["--gimbal-kubecfg-file", "holds no credentials"]),
        (vec!["--poll-interval", "0s"], variables.to_vec(), vec!["--poll-interval 0s"]),
        (vec!["--listen", "0.0.0.0:1"], variables.to_vec(), vec!["--listen 0.0.0.0:1"]),
        (vec!["--projects", ""], variables.to_vec(), vec!["--projects", "empty"]),
        (vec!["--nonsense"], variables.to_vec(), vec!["--nonsense"]),
    ] {
        let (code, text) = run(&flags, &variables);
        assert_eq!(code, Some(2), "{flags:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{flags:?}: {text}");
        assert!(!text.contains("not-to-be-repeated"), "{flags:?}: {text}");
        for part in parts {
            assert!(text.contains(part), "{flags:?}: {text} lacks {part}");
        }
    }
}
