//! What `.ci/publish` pushes and signs, with a registry in memory and a cosign that only notes what it is asked for.

use super::*;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Images of two architectures, and the programs that the script calls.
struct Release {
    registry: super::Registry,
    dir: tempfile::TempDir,
}

impl Release {
    fn new() -> Self {
        let release = Self { registry: super::Registry::start(), dir: tempfile::tempdir().unwrap() };
        for architecture in ["amd64", "arm64"] {
            let out = release.dir.path().join("images").join(architecture);
            image(&out);
            std::fs::remove_dir_all(out.join("bins")).unwrap();
        }
        release.program("crane", &format!("exec {} \"$@\"", Asset::Crane.path().unwrap().display()));
        // The registry has no TLS.
        let helm = Asset::Helm.path().unwrap().display().to_string();
        release.program("helm", &format!("[ $1 != push ] || set -- \"$@\" --plain-http\nexec {helm} \"$@\""));
        release.program("cosign", &format!("echo \"$@\" >>{}", release.dir.path().join("signed").display()));
        release
    }

    fn program(&self, name: &str, script: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let bin = self.dir.path().join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        let path = bin.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs the script; an error is what it says.
    fn publish(&self) -> Result<(), String> {
        let path = format!("{}:{}", self.dir.path().join("bin").display(), std::env::var("PATH").unwrap());
        let mut script = Command::new(root().join(".ci/publish"));
        script.arg(self.dir.path().join("images")).args([&*self.repository(), VERSION]);
        let output = script.env("PATH", path).env("HOME", self.dir.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(said) }
    }

    fn repository(&self) -> String {
        format!("{}/gimbal", self.registry.address)
    }

    /// Returns the last word of each call of cosign with this verb: what it is about.
    fn signed(&self, verb: &str) -> Vec<String> {
        let calls = std::fs::read_to_string(self.dir.path().join("signed")).unwrap_or_default();
        let of_verb = calls.lines().filter(|call| call.starts_with(verb));
        of_verb.map(|call| call.rsplit(' ').next().unwrap().to_owned()).collect()
    }
}

#[test]
fn images_and_charts_are_pushed_once_and_signed_by_their_digest() {
    let release = Release::new();
    release.publish().unwrap();
    let repository = release.repository();
    let digest = |name: &str| release.registry.crane(&["digest", name]).unwrap().trim().to_owned();
    let tag = format!("{repository}/{PROGRAM}:{VERSION}");
    let signed = release.signed("sign");
    assert_eq!(signed[0], format!("{repository}/{PROGRAM}@{}", digest(&tag)));
    let index: Value = serde_json::from_str(&release.registry.crane(&["manifest", &tag]).unwrap()).unwrap();
    let parts: Vec<String> = ["amd64", "arm64"].map(|architecture| digest(&format!("{tag}-{architecture}"))).into();
    let listed = index["manifests"].as_array().unwrap().iter().map(|part| part["digest"].as_str().unwrap());
    assert!(listed.eq(parts.iter().map(String::as_str)), "{index}");
    assert_eq!(release.signed("attest"), [0, 1].map(|part: usize| format!("{repository}/{PROGRAM}@{}", parts[part])));
    let charts = std::fs::read_dir(root().join("deploy/charts")).unwrap().map(|chart| chart.unwrap().path());
    let mut charts: Vec<String> = charts
        .filter(|chart| chart.join("Chart.yaml").is_file())
        .map(|chart| {
            let name = format!("{repository}/charts/{}", chart.file_name().unwrap().to_str().unwrap());
            format!("{name}@{}", digest(&format!("{name}:{VERSION}")))
        })
        .collect();
    charts.sort();
    let mut signed_charts = signed[1..].to_vec();
    signed_charts.sort();
    assert_eq!(signed_charts, charts);

    let error = release.publish().unwrap_err();
    assert!(error.contains(&format!("{tag} is there already")), "{error}");
}

/// Somebody who may push, and must not get the identity that signs.
#[test]
fn what_somebody_puts_under_a_tag_meanwhile_is_not_signed() {
    let release = Release::new();
    let crane = Asset::Crane.path().unwrap().display().to_string();
    let evil = release.dir.path().join("evil.tar");
    let mut tar = Command::new("tar");
    tar.args(["-cf"]).arg(&evil).args(["-C", "/etc", "hostname"]);
    output(tar).unwrap();
    let theirs = format!("{}/theirs:1", release.registry.address);
    release
        .registry
        .crane(&["append", "--oci-empty-base", "--new_layer", evil.to_str().unwrap(), "--new_tag", &theirs])
        .unwrap();
    // The tag is theirs as soon as it was pushed.
    let moves = format!(
        "{crane} \"$@\" || exit\ncase $1 in\npush) {crane} copy {theirs} $3 >/dev/null ;;\nindex) {crane} copy {theirs} $8 >/dev/null ;;\nesac"
    );
    release.program("crane", &moves);
    release.publish().unwrap();
    let moved = release.registry.crane(&["digest", &theirs]).unwrap().trim().to_owned();
    let tag = format!("{}/{PROGRAM}:{VERSION}", release.repository());
    assert_eq!(release.registry.crane(&["digest", &tag]).unwrap().trim(), moved, "it was moved");
    let all = [release.signed("sign"), release.signed("attest")].concat();
    assert!(all.len() > 3 && !all.iter().any(|one| one.ends_with(&moved)), "{all:?}");
    let own =
        std::fs::read_to_string(release.dir.path().join("images/amd64").join(PROGRAM).join("index.json")).unwrap();
    let attested = release.signed("attest");
    assert!(own.contains(attested[0].rsplit('@').next().unwrap()), "{attested:?}");
}

#[test]
fn a_registry_that_does_not_answer_has_not_said_that_there_is_none() {
    let release = Release::new();
    release.program("crane", "echo 'unexpected status code 503 Service Unavailable' >&2\nexit 1");
    let error = release.publish().unwrap_err();
    assert!(error.contains("cannot see whether") && error.contains("503"), "{error}");
    assert_eq!(release.signed(""), [""; 0]);
}
