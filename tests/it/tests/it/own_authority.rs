//! Certificates that gimbalctl makes, as programs use them.

use std::path::Path;
use std::process::{Command, Output};

use gimbal_testkit::Process;
use gimbal_testkit::process::{binary, free_port};
use gimbal_tests::{SOON, Scene, get};
use serde_json::Value;

fn run(dir: &Path, words: &[&str]) -> Output {
    Command::new(binary("gimbalctl").unwrap()).current_dir(dir).args(words).output().unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Runs a command that succeeds. Returns what it printed.
fn good(dir: &Path, words: &str) -> String {
    let output = run(dir, &words.split(' ').collect::<Vec<_>>());
    assert!(output.status.success(), "{words}: {output:?}");
    printed(&output)
}

/// Runs a command that fails. Returns what it said.
fn refused(dir: &Path, words: &str) -> String {
    let output = run(dir, &words.split(' ').collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(1), "{words}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_and_an_administrator_trust_what_gimbalctl_makes() {
    let scene = Scene::start().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    good(dir, "certs authority");
    let command = good(dir, "certs issue writer --dns localhost --ip 127.0.0.1 --secret gimbal-writer-tls");
    let files = "--from-file ./writer/tls.crt --from-file ./writer/tls.key --from-file ./writer/ca.crt";
    assert!(
        command.contains("secret generic gimbal-writer-tls --namespace gimbal") && command.contains(files),
        "{command}"
    );
    good(dir, "certs issue admin --uri spiffe://gimbal.example/admin");
    good(dir, "certs issue stranger --uri spiffe://gimbal.example/stranger");
    // A key is its owner's alone, whatever the umask says.
    use std::os::unix::fs::PermissionsExt as _;
    for key in ["authority/ca.key", "writer/tls.key"] {
        assert_eq!(std::fs::metadata(dir.join(key)).unwrap().permissions().mode() & 0o077, 0, "{key}");
    }

    let (port, admin_port) = (free_port().unwrap(), free_port().unwrap());
    let config = scene.config(&["node01"], "").unwrap();
    let mut args =
        scene.writer_args(scene.gimbal.user("writer").unwrap().kubeconfig(), port, admin_port, &config, &[]).unwrap();
    for (flag, file) in
        [("--tls-cert", "writer/tls.crt"), ("--tls-key", "writer/tls.key"), ("--tls-ca", "writer/ca.crt")]
    {
        let at = args.iter().position(|arg| arg == flag).unwrap();
        args[at + 1] = dir.join(file).display().to_string();
    }
    let log = scene.path("own-authority.log");
    let writer = Process::start("gimbal-writer", &binary("gimbal-writer").unwrap(), &args, &log).unwrap();
    gimbal_testkit::eventually("the writer is ready", SOON, async || {
        let (status, text) = get(admin_port, "/readyz").await?;
        anyhow::ensure!(status == 200, "{status} {text}\n{}", writer.log_tail());
        Ok(())
    })
    .await
    .unwrap();

    let as_who = |who: &str| {
        format!(
            "--server https://localhost:{port} --tls-cert {who}/tls.crt --tls-key {who}/tls.key --tls-ca {who}/ca.crt \
             backends -o json"
        )
    };
    let backends = tokio::task::block_in_place(|| good(dir, &as_who("admin")));
    let backend: Value = serde_json::from_str(backends.trim()).unwrap();
    assert_eq!(backend["backend"], "node01", "{backends}");
    let words = tokio::task::block_in_place(|| refused(dir, &as_who("stranger")));
    assert!(words.contains("neither an admin's nor a backend's"), "{words}");

    // What is wrong has a check of its own, and what depends on it is not looked at.
    let checked = |who: &str| {
        let words = as_who(who).replace("backends -o json", "check -o json");
        let output = tokio::task::block_in_place(|| run(dir, &words.split(' ').collect::<Vec<_>>()));
        let lines = printed(&output);
        let results = lines.lines().map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            format!("{} {}", line["check"].as_str().unwrap(), line["result"].as_str().unwrap())
        });
        (output.status.code(), results.collect::<Vec<_>>())
    };
    let (code, results) = checked("admin");
    assert_eq!(code, Some(1));
    for expected in [
        "client.certificate ok",
        "client.authorities ok",
        "client.chain ok",
        "client.identity ok",
        "server.reached ok",
        "server.chain ok",
        "server.certificate ok",
        "server.answers ok",
        "server.version ok",
        "server.clock ok",
        "server.rights ok",
        "writer.leads ok",
        "backend.admitted ok",
        "backend.connected fail",
        "backend.source skip",
        "backend.held ok",
    ] {
        assert!(results.iter().any(|result| result == expected), "{expected}: {results:?}");
    }
    let (_, results) = checked("stranger");
    assert!(
        results.ends_with(
            &[
                "server.answers ok",
                "client.identity fail",
                "server.version skip",
                "server.clock skip",
                "server.rights skip"
            ]
            .into_iter()
            .chain(["writer.leads skip", "backend skip"])
            .map(str::to_owned)
            .collect::<Vec<_>>()
        ),
        "{results:?}"
    );

    // The same without flags, by a context.
    let words = format!(
        "--config contexts.yaml context set here --server https://localhost:{port} --tls-cert admin/tls.crt \
         --tls-key admin/tls.key --tls-ca admin/ca.crt"
    );
    assert!(good(dir, &words).contains("*  here"));
    let backends = tokio::task::block_in_place(|| good(dir, "backends --config contexts.yaml -o json"));
    assert!(backends.contains("\"backend\":\"node01\""), "{backends}");
    let lacks = run(dir, &["--config", "contexts.yaml", "lb", "list"]);
    assert!(
        lacks.status.code() == Some(2) && String::from_utf8_lossy(&lacks.stderr).contains("--openstack-server"),
        "{lacks:?}"
    );

    // One of another authority is no client.
    good(dir, "certs authority --dir other");
    good(dir, "certs issue admin --uri spiffe://gimbal.example/admin --authority other --out elsewhere");
    std::fs::copy(dir.join("admin/ca.crt"), dir.join("elsewhere/admin/ca.crt")).unwrap();
    let words = tokio::task::block_in_place(|| refused(dir, &as_who("elsewhere/admin")));
    assert!(words.contains("certificate"), "{words}");
}

#[test]
fn nothing_is_replaced_by_mistake_and_nothing_outlives_its_authority() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert!(refused(dir, "certs issue a --dns a").contains("gimbalctl certs authority"));
    good(dir, "certs authority --days 30");
    let authority = std::fs::read(dir.join("authority/ca.key")).unwrap();
    assert!(refused(dir, "certs authority").contains("is there already"));
    assert_eq!(std::fs::read(dir.join("authority/ca.key")).unwrap(), authority);

    good(dir, "certs issue a --dns a.example");
    let show = || -> Value { serde_json::from_str(good(dir, "certs show a/tls.crt -o json").trim()).unwrap() };
    let first = show();
    assert!(refused(dir, "certs issue a --dns a.example").contains("is there already"));
    assert_eq!(show(), first);
    good(dir, "certs issue a --dns a.example --uri spiffe://x/a --ip fd00::1 --replace");
    let second = show();
    assert_ne!(second["sha256"], first["sha256"]);
    assert_eq!(second["names"], serde_json::json!(["spiffe://x/a", "a.example", "fd00::1"]));
    let ends = |file: &str| -> Value {
        serde_json::from_str::<Value>(good(dir, &format!("certs show {file} -o json")).trim()).unwrap()["notAfter"]
            .clone()
    };
    assert_eq!(ends("a/tls.crt"), ends("authority/ca.crt"), "it asks for 365 days");

    // One authority takes the place of another.
    good(dir, "certs authority --dir new");
    good(dir, "certs issue a --dns a.example --trust new/ca.crt --replace");
    let subjects = |file: &str| -> Vec<String> {
        let lines = good(dir, &format!("certs show {file} -o json"));
        lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["subject"].to_string()).collect()
    };
    let both = subjects("a/ca.crt");
    assert!(both.len() == 2 && both[0] != both[1], "{both:?}");

    // What signs has to be an authority, and the key its own.
    let (ca, key) = (dir.join("authority/ca.crt"), dir.join("authority/ca.key"));
    std::fs::create_dir(dir.join("wrong")).unwrap();
    std::fs::copy(&ca, dir.join("wrong/ca.crt")).unwrap();
    std::fs::copy(dir.join("new/ca.key"), dir.join("wrong/ca.key")).unwrap();
    let issue = "certs issue b --dns b --authority wrong";
    assert!(refused(dir, issue).contains("none of its certificates is that of its key"));
    std::fs::copy(dir.join("a/tls.crt"), dir.join("wrong/ca.crt")).unwrap();
    std::fs::copy(dir.join("a/tls.key"), dir.join("wrong/ca.key")).unwrap();
    assert!(refused(dir, issue).contains("no authority"));
    // Of a bundle the one that has the key.
    let bundle = [std::fs::read(dir.join("new/ca.crt")).unwrap(), std::fs::read(&ca).unwrap()].concat();
    std::fs::write(dir.join("wrong/ca.crt"), bundle).unwrap();
    std::fs::copy(&key, dir.join("wrong/ca.key")).unwrap();
    good(dir, issue);
    let shown = |file: &str, key: &str| -> Value {
        serde_json::from_str::<Value>(good(dir, &format!("certs show {file} -o json")).lines().next().unwrap()).unwrap()
            [key]
            .clone()
    };
    assert_eq!(shown("b/tls.crt", "issuer"), shown("authority/ca.crt", "subject"));

    let table = good(dir, "certs show authority/ca.crt a/tls.crt");
    let has = |words: [&str; 3]| table.lines().any(|line| words.iter().all(|words| line.contains(words)));
    assert!(has(["authority/ca.crt", "authority", "29d"]) && has(["a/tls.crt", "pair", "a.example"]), "{table}");
    std::fs::write(dir.join("broken"), "no PEM\n").unwrap();
    assert!(refused(dir, "certs show broken").contains("it has no certificate"));
    assert!(refused(dir, "certs show absent").contains("cannot read absent"));
}

#[test]
fn a_shell_completes_the_commands_and_each_has_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for shell in ["bash", "zsh", "fish"] {
        let script = good(dir, &format!("completion {shell}"));
        assert!(
            script.contains("decommission") && script.contains("--tls-cert") | script.contains("tls-cert"),
            "{shell}"
        );
    }
    good(dir, "man pages");
    for page in ["gimbalctl.1", "gimbalctl-why.1", "gimbalctl-lb-adopt.1", "gimbalctl-certs-issue.1"] {
        let text =
            std::fs::read_to_string(dir.join("pages").join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        assert!(text.contains(".SH NAME"), "{page}");
    }
}
