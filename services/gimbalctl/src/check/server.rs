//! Whether the server is reached, and whether both certificates are accepted.

use gimbal_runtime::Exit;
use gimbal_transport::{Channel, ClientTls, DialError, TlsFiles, certificate_chain, client_chain, client_tls, dial};
use jiff::Timestamp;

use super::limits::{Limits, blocking};
use super::pair;
use super::result::CheckResult;
use crate::certs::ShownCertificate;

/// What came of a dial.
pub struct Reached {
    /// The checks, in their order.
    pub results: Vec<CheckResult>,
    /// The connection, if there is one.
    pub channel: Option<Channel>,
}

/// Checks the certificate of this client, dials the server and looks at its certificates. Without files there is no TLS.
///
/// # Errors
/// `server` can be no URL, or may not be dialled without TLS.
pub async fn reach(server: &str, files: Option<TlsFiles>, limits: Limits) -> Result<Reached, Exit> {
    let mut chain = None;
    let mut tls = None;
    if let Some(files) = files {
        match load(files, limits).await {
            Ok((verified, loaded)) => (chain, tls) = (Some(verified), Some(loaded)),
            Err(problem) => {
                let hint = "give the certificate, its key and the authorities as PEM files that this user may read";
                let mut results = vec![CheckResult::fail("client.chain", server, problem, hint)];
                let why = "the certificate of this client cannot be used";
                results.extend(
                    ["server.reached", "server.chain", "server.certificate"]
                        .map(|id| CheckResult::skip(id, server, why)),
                );
                return Ok(Reached { results, channel: None });
            }
        }
    }
    let dialled = dial(server, tls.clone(), limits.connection()).await;
    let (channel, error) = match dialled {
        Ok(channel) => (Some(channel), None),
        // A wrong URL is no state of the server.
        Err(error @ (DialError::Url { .. } | DialError::Plaintext(_))) => {
            return Err(crate::undialled("--server", server, &error));
        }
        Err(error) => (None, Some(error)),
    };
    let mut results = of_dial(server, chain, error.as_ref());
    if let Some(tls) = &tls {
        results.push(match &channel {
            Some(_) => certificates(server, tls, limits).await,
            None => CheckResult::skip("server.certificate", server, "it was not shown"),
        });
    }
    Ok(Reached { results, channel })
}

/// Loads the files of this client, and verifies its certificate against its own authorities.
async fn load(files: TlsFiles, limits: Limits) -> Result<(Result<(), String>, ClientTls), String> {
    let work = move || {
        let tls = client_tls(&files).map_err(|error| error.to_string())?;
        Ok((client_chain(&files).map_err(|error| error.to_string()), tls))
    };
    blocking(limits.files(), work).await?
}

/// Judges a dial. `chain`: whether this client's certificate is signed by its own --tls-ca, or why not; `None` without TLS. The
/// authorities of servers and of clients may differ, so the server's word counts where there is one.
fn of_dial(server: &str, chain: Option<Result<(), String>>, error: Option<&DialError>) -> Vec<CheckResult> {
    let own = |result: Option<CheckResult>| result.into_iter();
    let reached = CheckResult::ok("server.reached", server, "");
    let sound = || chain.as_ref().map(|_| CheckResult::ok("server.chain", server, ""));
    match error {
        None => {
            let accepted = match &chain {
                Some(Err(_)) => "the server accepts it, though it is not of an authority in --tls-ca",
                _ => "",
            };
            let client = chain.as_ref().map(|_| CheckResult::ok("client.chain", server, accepted));
            own(client).chain([reached]).chain(sound()).collect()
        }
        Some(DialError::ClientCertificate { reason, .. }) => {
            let own = match &chain {
                Some(Err(problem)) => format!("; {problem}"),
                _ => String::new(),
            };
            let hint = "the server's --tls-ca must have the authority of this client's certificate; is it on its denyCertificates?";
            let found = format!("the server refused the certificate ({reason}){own}");
            let client = CheckResult::fail("client.chain", server, found, hint);
            [client, reached].into_iter().chain(sound()).collect()
        }
        Some(DialError::ServerCertificate { reason, .. }) => {
            let hint = "its certificate must have the name in --server, and --tls-ca its authority; or another program answers there";
            let refused = CheckResult::fail("server.chain", server, reason, hint);
            own(unproven(server, chain.as_ref())).chain([reached, refused]).collect()
        }
        Some(error) => {
            let hint = "is it running, and does --server name it? Is a firewall or a NetworkPolicy in between?";
            let failed = CheckResult::fail("server.reached", server, error.to_string(), hint);
            let skipped = chain.as_ref().map(|_| CheckResult::skip("server.chain", server, "it was not reached"));
            own(unproven(server, chain.as_ref())).chain([failed]).chain(skipped).collect()
        }
    }
}

/// What is known of this client's certificate where no server has judged it.
fn unproven(server: &str, chain: Option<&Result<(), String>>) -> Option<CheckResult> {
    Some(match chain? {
        Ok(()) => CheckResult::ok("client.chain", server, ""),
        Err(problem) => {
            let hint = "a server that trusts the same authorities refuses it; gimbalctl certs issue, or the cert-manager that made it";
            CheckResult::fail("client.chain", server, problem, hint)
        }
    })
}

/// Looks at the certificates that the server shows: the one that ends first counts.
async fn certificates(server: &str, tls: &ClientTls, limits: Limits) -> CheckResult {
    let id = "server.certificate";
    let shown = match certificate_chain(server, tls, limits.handshake()).await {
        Ok(shown) => shown,
        Err(error) => return CheckResult::skip(id, server, format!("it was not shown a second time: {error}")),
    };
    match shown.iter().map(ShownCertificate::of).collect::<Result<Vec<_>, _>>() {
        Ok(all) => pair::of_certificates(id, server, &all, Timestamp::now()),
        Err(problem) => CheckResult::fail(id, server, problem, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::super::result::CheckLevel;
    use super::*;

    #[test]
    fn each_refusal_is_one_failure_of_whom_it_is_about() {
        let authority = || "a:1".to_owned();
        let reason = || "UnknownCA".to_owned();
        let not_ours = || Some(Err("--tls-cert a: it is not signed by this CA".to_owned()));
        let unreachable = || DialError::Timeout { authority: authority(), after: std::time::Duration::from_secs(1) };
        let client = || DialError::ClientCertificate { authority: authority(), reason: reason() };
        let server = || DialError::ServerCertificate { authority: authority(), reason: reason() };
        let (ok, fail, skip) = (CheckLevel::Ok, CheckLevel::Fail, CheckLevel::Skip);
        type Case = (Option<Result<(), String>>, Option<DialError>, Vec<(&'static str, CheckLevel)>);
        let cases: Vec<Case> = vec![
            (None, None, vec![("server.reached", ok)]),
            (None, Some(unreachable()), vec![("server.reached", fail)]),
            (Some(Ok(())), None, vec![("client.chain", ok), ("server.reached", ok), ("server.chain", ok)]),
            (not_ours(), None, vec![("client.chain", ok), ("server.reached", ok), ("server.chain", ok)]),
            (Some(Ok(())), Some(client()), vec![("client.chain", fail), ("server.reached", ok), ("server.chain", ok)]),
            (Some(Ok(())), Some(server()), vec![("client.chain", ok), ("server.reached", ok), ("server.chain", fail)]),
            (not_ours(), Some(server()), vec![("client.chain", fail), ("server.reached", ok), ("server.chain", fail)]),
            (
                not_ours(),
                Some(unreachable()),
                vec![("client.chain", fail), ("server.reached", fail), ("server.chain", skip)],
            ),
        ];
        for (chain, error, expected) in cases {
            let results = of_dial("https://a:1", chain.clone(), error.as_ref());
            let found: Vec<_> = results.iter().map(|one| (one.id, one.level)).collect();
            assert_eq!(found, expected, "{chain:?} {error:?}");
            let hinted = |one: &CheckResult| (one.level == CheckLevel::Fail) != one.hint.is_empty();
            assert!(results.iter().all(hinted), "{results:?}");
        }
    }
}
