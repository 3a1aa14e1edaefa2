//! The flags that all discoverers have. They are a stable interface that scripts rely on
//! (docs/design.md#command-lines).

use std::net::SocketAddr;
use std::num::NonZeroUsize;

use gimbal_model::BackendName;
use gimbal_runtime::{LogFormat, TlsArgs};
use gimbal_transport::{DialError, DialTarget, TlsFiles};

/// Put into a service's own arguments with `#[command(flatten)]`; [`crate::Setup::new`] checks it.
#[derive(Debug, Clone, clap::Args)]
pub struct AgentArgs {
    /// Name of the backend: lower-case letters, digits and '-'
    #[arg(long, env = "GIMBAL_BACKEND_NAME")]
    pub backend_name: BackendName,
    /// The writer, as https://host:port; plain http only on loopback. Where several are named, or a name has several
    /// addresses, the one that leads is found. Without it nothing is sent: a dry run to inspect
    #[arg(long, env = "GIMBAL_WRITER", value_name = "URL,...", value_delimiter = ',')]
    pub writer: Vec<String>,
    /// For the writer, and for --listen.
    #[command(flatten)]
    pub tls: TlsArgs,
    /// Where InspectionService is served: without TLS on loopback, elsewhere with client certificates
    #[arg(long, env = "GIMBAL_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:7444")]
    pub listen: SocketAddr,
    /// Where /metrics, /healthz and /readyz are served
    #[arg(long, env = "GIMBAL_ADMIN_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:7481")]
    pub admin_listen: SocketAddr,
    /// The status page at /status of --admin-listen, where that is not on loopback, too
    #[arg(long, env = "GIMBAL_STATUS_PAGE")]
    pub status_page: bool,
    /// Names under which the status page is reached, beside localhost and addresses: those of a Service, or of a proxy
    #[arg(long, env = "GIMBAL_STATUS_PAGE_HOSTS", value_name = "NAME,...", value_delimiter = ',')]
    pub status_page_hosts: Vec<String>,
    /// Threads to work with
    #[arg(long, env = "GIMBAL_WORKER_THREADS", value_name = "N", default_value = "1")]
    pub worker_threads: NonZeroUsize,
    /// Form of the log
    #[arg(long, env = "GIMBAL_LOG_FORMAT", value_name = "text|json", default_value = "text")]
    pub log_format: LogFormat,
}

impl AgentArgs {
    /// Checks the combination of flags, and returns the certificate files if they are set. The error is one line that
    /// names the flag.
    ///
    /// # Errors
    /// Returns an error when flags are missing or contradict each other.
    pub fn check(&self) -> Result<Option<TlsFiles>, String> {
        let tls = self.tls.files()?.map(|(cert, key, ca)| TlsFiles { cert, key, ca });
        self.targets(tls.is_some())?;
        if tls.is_none() && !gimbal_transport::plaintext_allowed(&self.listen) {
            return Err(format!(
                "--listen {}: others can reach this address; give --tls-cert, --tls-key and --tls-ca, or use a loopback address",
                self.listen
            ));
        }
        Ok(tls)
    }

    /// Parses and checks the writer's URLs.
    pub(crate) fn targets(&self, tls: bool) -> Result<Vec<DialTarget>, String> {
        let target = |url: &String| {
            check_writer(url, tls)?;
            // An http URL is plaintext over loopback, even if certificates are set for --listen.
            let with_tls = tls && url.starts_with("https:");
            DialTarget::parse(url, with_tls).map_err(|error| match error {
                DialError::Url { problem, .. } => format!("--writer {url}: {problem}"),
                other => format!("--writer {url}: {other}"),
            })
        };
        self.writer.iter().map(target).collect()
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
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Args {
        #[command(flatten)]
        agent: AgentArgs,
    }

    fn check(flags: &[&str]) -> Result<Option<TlsFiles>, String> {
        Args::try_parse_from(["x", "--backend-name", "b"].iter().chain(flags)).unwrap().agent.check()
    }

    const TLS: [&str; 6] = ["--tls-cert", "c", "--tls-key", "k", "--tls-ca", "a"];

    #[test]
    fn good() {
        for (flags, tls) in [
            (vec![], false),
            (vec!["--writer", "http://127.0.0.1:7443"], false),
            (vec!["--writer", "http://[::1]:7443/"], false),
            (vec!["--writer", "http://localhost:7443"], false),
            ([&TLS[..], &["--writer", "https://writer.example:7443"]].concat(), true),
            ([&TLS[..], &["--writer", "https://a.example:1,https://b.example:1"]].concat(), true),
            ([&TLS[..], &["--listen", "0.0.0.0:7444"]].concat(), true),
        ] {
            assert_eq!(check(&flags).map(|files| files.is_some()), Ok(tls), "{flags:?}");
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
            (vec!["--writer", "http://127.0.0.1:1,w:1"], "--writer w:1: has no scheme"),
            (vec!["--writer", "http://127.0.0.1:1,"], "--writer : is no URL"),
            (vec!["--writer", "http://127.0.0.1:port"], "--writer http://127.0.0.1:port: has no port that there is"),
            (vec!["--writer", "http://127.0.0.1:99999"], "--writer http://127.0.0.1:99999: has no port that there is"),
            (vec!["--writer", "http://ü"], "--writer http://ü: is no URL"),
            (vec!["--listen", "0.0.0.0:7444"], "--listen 0.0.0.0:7444: others can reach this address"),
            (vec!["--tls-cert", "c"], "--tls-key, --tls-ca: missing"),
        ] {
            let error = check(&flags).unwrap_err();
            assert!(error.starts_with(start), "{error}");
            assert!(!error.contains('\n'));
        }
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
