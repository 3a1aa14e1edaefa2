//! The pair of a program.

use gimbal_certificates::{Authority, PairRequest, SignError};
use gimbal_runtime::Exit;

use super::pair::{self, AUTHORITY, CERTIFICATE, KEY, failed};
use super::{DAY, IssueArgs, ShownCertificate, authority};
use crate::output::{print, remark};

/// Makes a pair, and prints the command that makes a Secret of it if one is named.
///
/// # Errors
/// The authority cannot be read or used, or the pair is there already, or cannot be written.
pub fn issue(args: &IssueArgs) -> Result<(), Exit> {
    let authority = authority::read(&args.authority)?;
    let (not_after, folder) = (authority.not_after(), args.authority.display());
    let request = PairRequest {
        name: &args.name,
        uris: &args.uri,
        dns: &args.dns,
        addresses: &args.ip,
        lifetime: DAY * args.days,
    };
    let signed = authority.sign(&request).map_err(|error| match error {
        SignError::Ended(_) => Exit::Failure(format!("the authority in {folder} has ended: {not_after}")),
        SignError::Name => Exit::Failure(format!("cannot use the authority in {folder}: {error}")),
        SignError::Request(error) => failed(&args.name, error),
    })?;
    if signed.ends_with_authority {
        remark(&format!("it ends with its authority: {not_after}"));
    }
    let dir = args.out.join(&args.name);
    let trusted = trusted(&authority, args)?;
    let files = [(KEY, signed.pair.key.as_str()), (CERTIFICATE, &signed.pair.certificate), (AUTHORITY, &trusted)];
    pair::write(&dir, &files, args.replace, "--replace makes the pair again")?;
    let path = |name: &str| dir.join(name).display().to_string();
    let Some(secret) = &args.secret else {
        return print(&format!("{}, {} and {}\n", path(CERTIFICATE), path(KEY), path(AUTHORITY)));
    };
    let file = |name: &str| format!("--from-file {}", shell_word(&path(name)));
    print(&format!(
        "kubectl create secret generic {secret} --namespace {} {} {} {} --dry-run=client --output yaml \
         | kubectl apply --server-side --force-conflicts -f -\n",
        args.namespace,
        file(CERTIFICATE),
        file(KEY),
        file(AUTHORITY),
    ))
}

/// Returns whom the program trusts: its own authority, and those that are named besides.
fn trusted(authority: &Authority, args: &IssueArgs) -> Result<String, Exit> {
    let mut all = authority.trusted().to_owned();
    for file in &args.trust {
        let wrong = |error: &dyn std::fmt::Display| Exit::Failure(format!("cannot use {}: {error}", file.display()));
        let text = std::fs::read_to_string(file).map_err(|error| wrong(&error))?;
        ShownCertificate::of_pem(text.as_bytes()).map_err(|error| wrong(&error))?;
        if !all.ends_with('\n') {
            all.push('\n');
        }
        all.push_str(&text);
    }
    Ok(all)
}

/// Returns a text as one word of a shell.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_any_name_is_one_word() {
        assert_eq!(shell_word("/a/b-1.x"), "/a/b-1.x");
        assert_eq!(shell_word("it's here"), r"'it'\''s here'");
    }
}
