//! Certificates and keys as files.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::Path;

use gimbal_runtime::Exit;
use tempfile::NamedTempFile;

/// The authority's certificate, beside its key and in each pair.
pub const AUTHORITY: &str = "ca.crt";
/// The authority's key.
pub const AUTHORITY_KEY: &str = "ca.key";
/// The certificate of a pair.
pub const CERTIFICATE: &str = "tls.crt";
/// The key of a pair.
pub const KEY: &str = "tls.key";

/// Writes files into a folder, which is made. Each is replaced as a whole, and readable to its owner alone.
///
/// # Errors
/// They cannot be written, or one is there and is not to be replaced; `otherwise` says what to do then.
pub fn write(dir: &Path, files: &[(&str, &str)], replace: bool, otherwise: &str) -> Result<(), Exit> {
    let there = files.iter().map(|(name, _)| dir.join(name)).find(|path| path.exists());
    if let Some(path) = there.filter(|_| !replace) {
        let path = path.display();
        return Err(Exit::Failure(format!("{path} is there already, and stays as it is: {otherwise}")));
    }
    replace_files(dir, files).map_err(|error| Exit::Failure(format!("cannot write into {}: {error}", dir.display())))
}

/// Writes files into a folder, which is made. Each is replaced as a whole, none before all are written, and readable to its owner
/// alone.
///
/// # Errors
/// They cannot be written.
pub fn replace_files(dir: &Path, files: &[(&str, &str)]) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let mut written = Vec::new();
    for (name, text) in files {
        // A temporary file is its owner's alone.
        let mut file = NamedTempFile::new_in(dir)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        written.push((file, dir.join(name)));
    }
    // None is replaced before all are written: a full disk leaves the former pair as it is.
    for (file, path) in written {
        file.persist(path).map_err(|error| error.error)?;
    }
    Ok(())
}

/// Returns that a certificate could not be made.
pub fn failed(what: &str, error: impl Display) -> Exit {
    Exit::Failure(format!("cannot make the certificate of {what}: {error}"))
}
