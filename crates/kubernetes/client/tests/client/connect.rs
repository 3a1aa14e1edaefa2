//! What a person reads when a kubeconfig is wrong.

use gimbal_kubernetes_client::{Access, Cluster};

const GOOD: &str = "
apiVersion: v1
kind: Config
current-context: main
contexts: [{name: main, context: {cluster: here, user: me}}]
clusters: [{name: here, cluster: {server: 'http://127.0.0.1:1'}}]
users: [{name: me, user: {token: t}}]
";

/// The result of connecting by this kubeconfig: the URL, or the error without the name of the folder.
fn connect(text: &str) -> std::io::Result<String> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("kubeconfig");
    std::fs::write(&path, text)?;
    Ok(match Cluster::connect(&Access::Kubeconfig(path), "test") {
        Ok(cluster) => cluster.url(),
        Err(error) => error.to_string().replace(&folder.path().display().to_string(), "FOLDER"),
    })
}

#[tokio::test]
async fn a_good_one() {
    assert_eq!(connect(GOOD).unwrap(), "http://127.0.0.1:1");
}

#[tokio::test]
async fn a_missing_one() {
    let error = Cluster::connect(&Access::Kubeconfig("/nowhere/kubeconfig".into()), "test").unwrap_err();
    assert_eq!(
        error.to_string(),
        "kubeconfig /nowhere/kubeconfig: cannot be read: No such file or directory (os error 2)"
    );
}

#[tokio::test]
async fn bad_ones_say_what_is_wrong_in_one_line() {
    let here = "server: 'http://127.0.0.1:1'";
    for (from, to, expected) in [
        ("current-context: main", "", "has no current-context; set one"),
        ("current-context: main", "current-context: x", "has no context \"x\", which is its current-context"),
        ("cluster: here,", "cluster: gone,", "has no cluster \"gone\", which its context names"),
        ("kind: Config", "kind: [", "line 3 column 7: expected string scalar"),
        (here, "server: 'a b'", "failed to parse cluster url: invalid uri character"),
        (
            here,
            "certificate-authority: ca.pem, server: 'https://a'",
            "failed to load certificate authority: failed to read file \"FOLDER/ca.pem\": No such file or directory (os error 2)",
        ),
        (
            here,
            "certificate-authority-data: '!', server: 'https://a'",
            "failed to load certificate authority: failed to decode base64 data: Invalid symbol 33, offset 0.",
        ),
        (
            here,
            "certificate-authority-data: YWJj, server: 'https://a'",
            "its certificate authority holds no certificate in PEM form",
        ),
        (
            here,
            "proxy-url: 'http://p', server: 'https://a'",
            "proxy-url http://p is not supported; name a server that is reached directly",
        ),
        (
            here,
            "proxy-url: 'http://user:secret@p', server: 'https://a'",
            "proxy-url http://p is not supported; name a server that is reached directly",
        ),
        (
            "token: t",
            "auth-provider: {name: gcp, config: {cmd-path: gcloud}}",
            "auth-provider \"gcp\" is not supported; use an exec plug-in",
        ),
        (
            "token: t",
            "exec: {command: sh, args: ['-c', 'echo secret; exit 3'], env: [{name: P, value: secret}]}",
            "exec plug-in \"sh\" failed: exit status: 3",
        ),
        (
            "token: t",
            "client-certificate: me.pem, client-key: me.key",
            "failed to load client certificate: failed to read file \"FOLDER/me.pem\": No such file or directory (os error 2)",
        ),
        (
            "token: t",
            "client-certificate-data: YWJj, client-key-data: YWJj",
            "rustls tls error: identity PEM is missing a private key: the key must be PKCS8 or RSA/PKCS1",
        ),
        (
            "token: t",
            "tokenFile: gone",
            "failed to read token file \"FOLDER/gone\": No such file or directory (os error 2)",
        ),
    ] {
        let error = connect(&GOOD.replace(from, to)).unwrap();
        assert_eq!(error, format!("kubeconfig FOLDER/kubeconfig: {expected}"), "{to}");
    }
}
