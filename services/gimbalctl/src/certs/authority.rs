//! An authority of Gimbal's own, in a folder.

use std::path::Path;

use gimbal_certificates::{Authority, AuthorityError, make_authority};
use gimbal_runtime::Exit;

use super::DAY;
use super::pair::{self, AUTHORITY, AUTHORITY_KEY, failed};
use crate::output::print;

/// Makes an authority in a folder that has no other one.
///
/// # Errors
/// There is one already, or the folder cannot be written to.
pub fn make(dir: &Path, name: Option<&str>, days: u32) -> Result<(), Exit> {
    let made = make_authority(name, DAY * days).map_err(|error| failed("the authority", error))?;
    let files = [(AUTHORITY_KEY, made.key.as_str()), (AUTHORITY, made.certificate.as_str())];
    // One that is replaced by mistake signs nothing that others trust.
    pair::write(dir, &files, false, "give another --dir")?;
    print(&format!(
        "{} is what both ends of a stream must trust (ca.crt of their Secrets)\n\
         {} signs: keep it where no cluster and no repository has it\n",
        dir.join(AUTHORITY).display(),
        dir.join(AUTHORITY_KEY).display(),
    ))
}

/// Reads an authority: the one of its certificates that belongs to the key signs.
///
/// # Errors
/// It is not there, cannot be read, or may not sign.
pub fn read(dir: &Path) -> Result<Authority, Exit> {
    let wrong = |name: &str, error: &dyn std::fmt::Display| {
        Exit::Failure(format!("cannot use {}: {error}", dir.join(name).display()))
    };
    let text = |name: &str| {
        let hint = "`gimbalctl certs authority` makes one";
        std::fs::read_to_string(dir.join(name)).map_err(|error| wrong(name, &format!("{error} ({hint})")))
    };
    let (trusted, key) = (text(AUTHORITY)?, text(AUTHORITY_KEY)?);
    Authority::read(&trusted, &key).map_err(|error| match &error {
        AuthorityError::Key(_) => wrong(AUTHORITY_KEY, &error),
        AuthorityError::Certificate(_) => wrong(AUTHORITY, &error),
    })
}
