//! Flags that several services have, with one name, one variable and one meaning.

use std::path::PathBuf;

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

#[cfg(test)]
mod tests {
    use super::*;

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
