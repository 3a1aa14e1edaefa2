//! Flags that several services have, with one name, one variable and one meaning.

use std::path::PathBuf;
use std::time::Duration;

use crate::HumanDuration;

/// The files of a process's certificate. Put into a service's arguments with `#[command(flatten)]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct TlsArgs {
    /// Own certificate, towards whoever is dialled and whoever dials (PEM)
    #[arg(long, env = "GIMBAL_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of --tls-cert (PEM)
    #[arg(long, env = "GIMBAL_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Authorities that sign the certificates of the other ends (PEM)
    #[arg(long, env = "GIMBAL_TLS_CA", value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
}

impl TlsArgs {
    /// Returns the files of certificate, key and authorities, or `None` if no flag is set.
    ///
    /// # Errors
    /// Returns an error if some are set and some are not. It names the missing flags.
    pub fn files(&self) -> Result<Option<(PathBuf, PathBuf, PathBuf)>, String> {
        match (&self.tls_cert, &self.tls_key, &self.tls_ca) {
            (None, None, None) => Ok(None),
            (Some(cert), Some(key), Some(ca)) => Ok(Some((cert.clone(), key.clone(), ca.clone()))),
            (cert, key, ca) => {
                let named = [("--tls-cert", cert), ("--tls-key", key), ("--tls-ca", ca)];
                let missing: Vec<_> = named.iter().filter(|(_, file)| file.is_none()).map(|(flag, _)| *flag).collect();
                Err(format!("{}: missing; the three TLS files come together", missing.join(", ")))
            }
        }
    }
}

/// Checks that the value of a flag is not so short that the process would do nothing else, or could get nothing done. The error is
/// one line that names the flag and the shortest value.
///
/// # Errors
/// When the value is shorter than `shortest`.
pub fn at_least(flag: &str, value: HumanDuration, shortest: Duration) -> Result<(), String> {
    if value.0 >= shortest {
        return Ok(());
    }
    Err(format!("--{flag} {value}: is too short, use at least {}", HumanDuration(shortest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_short_is_named_with_what_is_not() {
        let of =
            |millis| at_least("poll-interval", HumanDuration(Duration::from_millis(millis)), Duration::from_secs(1));
        assert_eq!((of(1000), of(60_000)), (Ok(()), Ok(())));
        assert_eq!(of(999), Err("--poll-interval 999ms: is too short, use at least 1s".to_owned()));
        assert_eq!(of(0), Err("--poll-interval 0s: is too short, use at least 1s".to_owned()));
    }

    #[test]
    fn all_or_none_and_what_is_missing_is_named() {
        let file = |given: bool| given.then(|| PathBuf::from("f"));
        let args = |cert, key, ca| TlsArgs { tls_cert: file(cert), tls_key: file(key), tls_ca: file(ca) };
        assert_eq!(args(false, false, false).files(), Ok(None));
        assert_eq!(args(true, true, true).files(), Ok(Some(("f".into(), "f".into(), "f".into()))));
        for (args, missing) in [
            (args(true, false, false), "--tls-key, --tls-ca: missing"),
            (args(false, true, true), "--tls-cert: missing"),
            (args(true, true, false), "--tls-ca: missing"),
        ] {
            let error = args.files().unwrap_err();
            assert!(error.starts_with(missing), "{error}");
        }
    }
}
