//! Exec plug-ins: programs, named in a kubeconfig, that print credentials.
//!
//! kube runs them within a call, whose time-out may be shorter than theirs, and its errors contain their environment
//! and their output. Here they run in the background, and an error names only the program and how it ended.

use std::process::{Command, Stdio};
use std::time::Duration;

use jiff::Timestamp;
use kube::config::{ExecAuthCluster, ExecConfig, ExecInteractiveMode};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

/// How long a plug-in may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Credentials printed by a plug-in.
#[derive(Debug, Clone)]
pub(crate) struct Issued {
    /// Bearer token for the Authorization header.
    pub(crate) token: Option<SecretString>,
    /// Certificate and key, in PEM.
    pub(crate) certificate: Option<(String, SecretString)>,
    /// When they expire.
    pub(crate) until: Option<Timestamp>,
}

/// Why a plug-in issued no credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("exec plug-in {program:?} {problem}")]
pub(crate) struct PluginError {
    /// The program without its arguments, which may contain a secret.
    program: String,
    problem: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredentialRequest<'a> {
    api_version: &'a str,
    kind: &'static str,
    spec: ExecCredentialSpec<'a>,
}

#[derive(Serialize)]
struct ExecCredentialSpec<'a> {
    interactive: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<&'a ExecAuthCluster>,
}

#[derive(Deserialize)]
struct ExecCredential {
    status: Option<ExecCredentialStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredentialStatus {
    expiration_timestamp: Option<String>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

/// Runs a plug-in. Blocks the thread.
pub(crate) fn run(exec: &ExecConfig) -> Result<Issued, PluginError> {
    let program = exec.command.as_deref().unwrap_or_default();
    let failed = |problem: String| PluginError { program: program.to_owned(), problem };
    if program.is_empty() {
        return Err(failed("has no command".to_owned()));
    }
    if exec.interactive_mode == Some(ExecInteractiveMode::Always) {
        return Err(failed("needs a terminal (interactiveMode: Always), and there is none".to_owned()));
    }
    let command = command(program, exec).map_err(|error| failed(format!("cannot be asked: {error}")))?;
    let output = output(command).map_err(failed)?;
    read(&output).map_err(failed)
}

fn command(program: &str, exec: &ExecConfig) -> Result<Command, serde_json::Error> {
    let question = ExecCredentialRequest {
        api_version: exec.api_version.as_deref().unwrap_or("client.authentication.k8s.io/v1"),
        kind: "ExecCredential",
        spec: ExecCredentialSpec {
            interactive: false,
            cluster: exec.cluster.as_ref().filter(|_| exec.provide_cluster_info),
        },
    };
    let mut command = Command::new(program);
    command.args(exec.args.iter().flatten());
    for variable in exec.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    command.env("KUBERNETES_EXEC_INFO", serde_json::to_string(&question)?);
    // Its messages belong to the log of this process.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    Ok(command)
}

/// Returns what a command prints, if it succeeds in time.
fn output(command: Command) -> Result<Vec<u8>, String> {
    // A runtime of its own: the wait has an end, and a command that is given up is killed.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot be run: {error}"))?;
    runtime.block_on(async {
        let output = tokio::process::Command::from(command).kill_on_drop(true).output();
        match tokio::time::timeout(LIMIT, output).await {
            Err(_) => Err(format!("has not ended within {} s", LIMIT.as_secs())),
            Ok(Err(error)) => Err(format!("cannot be run: {error}")),
            Ok(Ok(output)) if !output.status.success() => Err(format!("failed: {}", output.status)),
            Ok(Ok(output)) => Ok(output.stdout),
        }
    })
}

/// Reads what a plug-in printed, which may be JSON or YAML. Errors quote nothing of it.
fn read(output: &[u8]) -> Result<Issued, String> {
    let answer: ExecCredential =
        serde_saphyr::from_slice(output).map_err(|_| "printed something else than an ExecCredential".to_owned())?;
    let status = answer.status.ok_or("printed an ExecCredential without a status")?;
    let until = status.expiration_timestamp.map(|text| text.parse::<Timestamp>()).transpose();
    let until = until.map_err(|_| "printed an expirationTimestamp that is no time in RFC 3339")?;
    let certificate = match (status.client_certificate_data, status.client_key_data) {
        (Some(certificate), Some(key)) => Some((certificate, key.into())),
        (None, None) => None,
        _ => return Err("printed a certificate without its key, or a key without its certificate".to_owned()),
    };
    if status.token.is_none() && certificate.is_none() {
        return Err("printed neither a token nor a certificate".to_owned());
    }
    Ok(Issued { token: status.token.map(SecretString::from), certificate, until })
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret as _;

    fn exec(script: &str) -> ExecConfig {
        ExecConfig {
            command: Some("sh".into()),
            args: Some(vec!["-c".into(), script.into()]),
            env: Some(vec![[("name".into(), "PASSWORD".into()), ("value".into(), "hunter2".into())].into()]),
            ..ExecConfig::default()
        }
    }

    #[test]
    fn what_it_prints_is_taken_in_json_and_in_yaml() {
        let json = r#"echo '{"kind": "ExecCredential", "status": {"token": "'$PASSWORD'", "expirationTimestamp": "2030-01-01T00:00:00Z"}}'"#;
        let issued = run(&exec(json)).unwrap();
        assert_eq!(issued.token.unwrap().expose_secret(), "hunter2");
        assert_eq!(issued.until, Some("2030-01-01T00:00:00Z".parse().unwrap()));
        let issued = run(&exec("echo 'status: {clientCertificateData: C, clientKeyData: K}'")).unwrap();
        assert_eq!(issued.certificate.unwrap().0, "C");
        // Its environment names the API version and says that it runs without a terminal.
        let issued =
            run(&exec("printf 'status: {token: \"%s\"}' \"$(echo $KUBERNETES_EXEC_INFO | tr -d '\"')\"")).unwrap();
        let issued = issued.token.unwrap();
        assert_eq!(
            issued.expose_secret(),
            "{apiVersion:client.authentication.k8s.io/v1,kind:ExecCredential,spec:{interactive:false}}"
        );
    }

    #[test]
    fn an_error_tells_nothing_of_environment_arguments_and_output() {
        let interactive = ExecConfig { interactive_mode: Some(ExecInteractiveMode::Always), ..exec("") };
        for (exec, expected) in [
            (exec("echo secret-on-stdout; exit 3"), "\"sh\" failed: exit status: 3"),
            (exec("echo hunter2"), "\"sh\" printed something else than an ExecCredential"),
            (
                exec("echo '{\"status\": {\"token\": [\"hunter2\"]}}'"),
                "\"sh\" printed something else than an ExecCredential",
            ),
            (exec("echo 'status: {token: a, expirationTimestamp: hunter2}'"), "no time in RFC 3339"),
            (exec("echo 'status: {}'"), "neither a token nor a certificate"),
            (exec("echo '{}'"), "without a status"),
            (exec("echo 'status: {clientKeyData: hunter2}'"), "a key without its certificate"),
            (interactive, "needs a terminal"),
            (ExecConfig { command: Some("/nowhere/tool".into()), ..exec("") }, "cannot be run: No such file"),
        ] {
            let error = run(&exec).unwrap_err();
            let text = format!("{error} {error:?}");
            assert!(text.contains(expected), "{text}");
            assert!(!text.contains("hunter2") && !text.contains("secret-on-stdout"), "{text}");
        }
    }
}
