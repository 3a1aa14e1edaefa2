//! The command line: a stable interface, others script against it.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgAction, Parser};
use gimbal_link::TlsFiles;
use gimbal_model::{BackendName, NamespacePattern};

/// Offers the Services of a Kubernetes cluster to a Gimbal writer. Reads its source, and changes nothing anywhere.
#[derive(Debug, Clone, Parser)]
#[command(name = "gimbal-kubernetes-discoverer", version)]
pub struct Args {
    /// Name of the backend: lower-case letters, digits and '-'
    #[arg(long, env = "GIMBAL_BACKEND_NAME")]
    pub backend_name: BackendName,
    /// Credentials of the source cluster [default: $KUBECONFIG, else the pod's service account, else ~/.kube/config]
    #[arg(long, alias = "discover-kubecfg-file", env = "GIMBAL_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The writer, as https://host:port; plain http only on loopback. Without it nothing is sent: a dry run to inspect
    #[arg(long, env = "GIMBAL_WRITER", value_name = "URL")]
    pub writer: Option<String>,
    /// Own certificate (PEM), for the writer and for --listen
    #[arg(long, env = "GIMBAL_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of --tls-cert (PEM)
    #[arg(long, env = "GIMBAL_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// What signs the certificates of the writer, and of those who inspect (PEM)
    #[arg(long, env = "GIMBAL_TLS_CA", value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// Where InspectionService is served: without TLS on loopback, elsewhere with client certificates
    #[arg(long, env = "GIMBAL_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:7444")]
    pub listen: SocketAddr,
    /// Where /metrics, /healthz and /readyz are served
    #[arg(long, env = "GIMBAL_ADMIN_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:7481")]
    pub admin_listen: SocketAddr,
    /// Namespaces to offer, '*' stands for any run of characters [default: all]
    #[arg(long, env = "GIMBAL_NAMESPACES", value_name = "PATTERN,...", value_delimiter = ',')]
    pub namespaces: Vec<NamespacePattern>,
    /// Namespaces not to offer; outranks --namespaces
    #[arg(long, env = "GIMBAL_EXCLUDE_NAMESPACES", value_name = "PATTERN,...", value_delimiter = ',')]
    pub exclude_namespaces: Vec<NamespacePattern>,
    /// Form of the log
    #[arg(long, env = "GIMBAL_LOG_FORMAT", value_name = "text|json", default_value = "text")]
    pub log_format: gimbal_operate::LogFormat,
    #[command(flatten)]
    old: OldFlags,
}

/// What the original Gimbal's discoverer took, so that its manifests start ours.
#[derive(Debug, Clone, Default, clap::Args)]
struct OldFlags {
    #[arg(long, hide = true, env = "GIMBAL_NUM_THREADS")]
    num_threads: Option<String>,
    #[arg(long, hide = true, env = "GIMBAL_RESYNC_INTERVAL")]
    resync_interval: Option<String>,
    #[arg(long, hide = true, env = "GIMBAL_GIMBAL_CLIENT_QPS")]
    gimbal_client_qps: Option<String>,
    #[arg(long, hide = true, env = "GIMBAL_GIMBAL_CLIENT_BURST")]
    gimbal_client_burst: Option<String>,
    #[arg(long, hide = true, env = "GIMBAL_PROMETHEUS_LISTEN_ADDRESS")]
    prometheus_listen_address: Option<String>,
    #[arg(long, hide = true, env = "GIMBAL_DEBUG", action = ArgAction::SetTrue)]
    debug: bool,
    #[arg(long, hide = true, env = "GIMBAL_GIMBAL_KUBECFG_FILE")]
    gimbal_kubecfg_file: Option<PathBuf>,
}

impl Args {
    /// Checks what no single flag can check of itself. The error is one line that names the flag.
    ///
    /// # Errors
    /// When flags are missing or contradict each other.
    pub fn check(&self) -> Result<(), String> {
        if self.old.gimbal_kubecfg_file.is_some() {
            return Err(
                "--gimbal-kubecfg-file: a discoverer holds no credentials of the Gimbal cluster, only the writer \
                        does; remove the flag and name the writer with --writer"
                    .into(),
            );
        }
        let tls = self.tls()?;
        if let Some(writer) = &self.writer {
            check_writer(writer, tls.is_some())?;
        }
        if tls.is_none() && !gimbal_link::plaintext_allowed(&self.listen) {
            return Err(format!(
                "--listen {}: others can reach this address; give --tls-cert, --tls-key and --tls-ca, or use a loopback address",
                self.listen
            ));
        }
        Ok(())
    }

    /// The certificate files: all of them or none.
    ///
    /// # Errors
    /// When some are named and some are not.
    pub fn tls(&self) -> Result<Option<TlsFiles>, String> {
        match (&self.tls_cert, &self.tls_key, &self.tls_ca) {
            (None, None, None) => Ok(None),
            (Some(cert), Some(key), Some(ca)) => {
                Ok(Some(TlsFiles { cert: cert.clone(), key: key.clone(), ca: ca.clone() }))
            }
            (cert, key, ca) => {
                let named = [("--tls-cert", cert), ("--tls-key", key), ("--tls-ca", ca)];
                let missing: Vec<_> = named.iter().filter(|(_, file)| file.is_none()).map(|(flag, _)| *flag).collect();
                Err(format!("{}: missing; the three TLS files come together", missing.join(", ")))
            }
        }
    }

    /// A sentence for each flag of the original that means nothing now.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let old = &self.old;
        let listening = format!("metrics are served on --admin-listen {}", self.admin_listen);
        [
            ("num-threads", old.num_threads.is_some(), "one task keeps up with any source"),
            ("resync-interval", old.resync_interval.is_some(), "the writer compares digests instead of resyncing"),
            ("gimbal-client-qps", old.gimbal_client_qps.is_some(), "the writer has --write-qps"),
            ("gimbal-client-burst", old.gimbal_client_burst.is_some(), "the writer has --write-qps"),
            ("prometheus-listen-address", old.prometheus_listen_address.is_some(), &listening),
            ("debug", old.debug, "set GIMBAL_LOG=debug"),
        ]
        .into_iter()
        .filter(|(_, given, _)| *given)
        .map(|(flag, _, instead)| format!("--{flag} means nothing any more and is ignored: {instead}"))
        .collect()
    }
}

fn check_writer(url: &str, tls: bool) -> Result<(), String> {
    let wrong = |problem: &str| Err(format!("--writer {url}: {problem}"));
    let Ok(uri) = url.parse::<tonic::codegen::http::Uri>() else {
        return wrong("is no URL; write https://host:port");
    };
    let Some(host) = uri.host().filter(|host| !host.is_empty()) else {
        return wrong("names no host; write https://host:port");
    };
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return wrong("has a path; write https://host:port");
    }
    match uri.scheme_str() {
        Some("https") if tls => Ok(()),
        Some("https") => {
            wrong("needs --tls-cert, --tls-key and --tls-ca: the writer knows a backend by its certificate")
        }
        Some("http") if is_loopback(host) => Ok(()),
        Some("http") => wrong("plain http is for loopback only; use https"),
        _ => wrong("has no scheme that is known here; write https://host:port"),
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(flags: &[&str]) -> Result<Args, clap::Error> {
        Args::try_parse_from(["x", "--backend-name", "b"].iter().chain(flags))
    }

    const TLS: [&str; 6] = ["--tls-cert", "c", "--tls-key", "k", "--tls-ca", "a"];

    #[test]
    fn good() {
        for flags in [
            vec![],
            vec!["--writer", "http://127.0.0.1:7443"],
            vec!["--writer", "http://[::1]:7443/"],
            vec!["--writer", "http://localhost:7443"],
            [&TLS[..], &["--writer", "https://writer.example:7443"]].concat(),
            [&TLS[..], &["--listen", "0.0.0.0:7444"]].concat(),
            vec!["--discover-kubecfg-file", "f", "--namespaces", "a,b-*", "--exclude-namespaces", "*-test"],
        ] {
            let args = args(&flags).unwrap();
            assert_eq!(args.check(), Ok(()), "{flags:?}");
            assert!(args.warnings().is_empty());
        }
    }

    #[test]
    fn bad() {
        for (flags, start) in [
            (vec!["--writer", "https://w:1"], "--writer https://w:1: needs --tls-cert"),
            (vec!["--writer", "http://10.0.0.1:1"], "--writer http://10.0.0.1:1: plain http is for loopback only"),
            (vec!["--writer", "ftp://127.0.0.1"], "--writer ftp://127.0.0.1: has no scheme"),
            (vec!["--writer", "w:1"], "--writer w:1: has no scheme"),
            (vec!["--writer", "http://127.0.0.1:1/x"], "--writer http://127.0.0.1:1/x: has a path"),
            (vec!["--writer", "http://ü"], "--writer http://ü: is no URL"),
            (vec!["--listen", "0.0.0.0:7444"], "--listen 0.0.0.0:7444: others can reach this address"),
            (vec!["--tls-cert", "c"], "--tls-key, --tls-ca: missing"),
            (vec!["--gimbal-kubecfg-file", "f"], "--gimbal-kubecfg-file: a discoverer holds no credentials"),
        ] {
            let error = args(&flags).unwrap().check().unwrap_err();
            assert!(error.starts_with(start), "{error}");
            assert!(!error.contains('\n'));
        }
    }

    #[test]
    fn what_clap_refuses_names_the_flag() {
        for flags in [["--namespaces", "A"], ["--listen", "x"], ["--log-format", "xml"], ["--backend-name", "B"]] {
            let error = args(&flags).unwrap_err().to_string();
            assert!(error.contains(flags[0]), "{error}");
        }
        assert!(Args::try_parse_from(["x"]).unwrap_err().to_string().contains("--backend-name"));
    }

    #[test]
    fn flags_of_the_original_are_told_about() {
        let args = args(&["--num-threads", "2", "--debug", "--resync-interval", "30m"]).unwrap();
        assert_eq!(args.check(), Ok(()));
        let warnings = args.warnings();
        assert_eq!(warnings.len(), 3);
        assert!(warnings[0].starts_with("--num-threads means nothing any more"));
    }

    #[test]
    fn every_flag_has_a_variable() {
        use clap::CommandFactory;
        for arg in Args::command().get_arguments() {
            let Some(long) = arg.get_long() else { continue };
            let expected = format!("GIMBAL_{}", long.to_uppercase().replace('-', "_"));
            assert_eq!(arg.get_env().and_then(|env| env.to_str()), Some(&*expected), "--{long}");
        }
    }
}
