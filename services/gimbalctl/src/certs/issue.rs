//! The pair of a program.

use std::time::SystemTime;

use gimbal_runtime::Exit;
use jiff::Timestamp;
use rcgen::string::Ia5String;
use rcgen::{ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType};

use super::IssueArgs;
use super::ShownCertificate;
use super::authority::{self, Authority};
use super::pair::{self, AUTHORITY, CERTIFICATE, KEY, failed};
use crate::output::{print, remark};

/// Makes a pair, and prints the command that makes a Secret of it if one is named.
///
/// # Errors
/// The authority cannot be read or used, or the pair is there already, or cannot be written.
pub fn issue(args: &IssueArgs) -> Result<(), Exit> {
    let authority = authority::read(&args.authority)?;
    let (not_after, folder) = (authority.not_after, args.authority.display());
    if not_after <= Timestamp::now() {
        return Err(Exit::Failure(format!("the authority in {folder} has ended: {not_after}")));
    }
    let failed = |error: rcgen::Error| failed(&args.name, error);
    let mut params = authority::params(&args.name, args.days).map_err(failed)?;
    let text = |text: &String| Ia5String::try_from(text.as_str());
    for name in &args.uri {
        params.subject_alt_names.push(SanType::URI(text(name).map_err(failed)?));
    }
    for name in &args.dns {
        params.subject_alt_names.push(SanType::DnsName(text(name).map_err(failed)?));
    }
    params.subject_alt_names.extend(args.ip.iter().copied().map(SanType::IpAddress));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // A program serves with the same pair that it dials with.
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    let end = SystemTime::from(not_after);
    if SystemTime::from(params.not_after) > end {
        params.not_after = end.into();
        remark(&format!("it ends with its authority: {not_after}"));
    }
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.signed_by(&key, &authority.issuer).map_err(failed)?;
    if !authority::is_named(certificate.der(), &authority.certificate) {
        let words =
            "the name of the authority has parts that cannot be written as they are: sign with the tool that made it";
        return Err(Exit::Failure(format!("cannot use the authority in {folder}: {words}")));
    }
    let dir = args.out.join(&args.name);
    let files = [(KEY, key.serialize_pem()), (CERTIFICATE, certificate.pem()), (AUTHORITY, trusted(&authority, args)?)];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
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
    let mut all = authority.trusted.clone();
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
