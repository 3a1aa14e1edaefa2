//! The pair of a program.

use gimbal_runtime::Exit;
use jiff::Timestamp;
use rcgen::string::Ia5String;
use rcgen::{ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType};

use super::IssueArgs;
use super::authority::{self, Authority};
use super::pair::{self, AUTHORITY, CERTIFICATE, KEY, failed};
use crate::output::{print, remark};

/// Makes a pair, and prints the command that makes a Secret of it.
///
/// # Errors
/// The authority cannot be read, or the pair is there already, or cannot be written.
pub fn issue(args: &IssueArgs) -> Result<(), Exit> {
    let Authority { certificate: trusted, not_after, issuer } = authority::read(&args.authority)?;
    if not_after <= Timestamp::now() {
        return Err(Exit::Failure(format!("the authority in {} has ended: {not_after}", args.authority.display())));
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
    let end = std::time::SystemTime::from(not_after);
    if std::time::SystemTime::from(params.not_after) > end {
        params.not_after = end.into();
        remark(&format!("it ends with its authority: {not_after}"));
    }
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.signed_by(&key, &issuer).map_err(failed)?;
    let dir = args.out.join(&args.name);
    let files = [(KEY, key.serialize_pem()), (CERTIFICATE, certificate.pem()), (AUTHORITY, trusted)];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    pair::write(&dir, &files, args.replace)?;
    let file = |name: &str| format!("--from-file {}", shell_word(&dir.join(name).display().to_string()));
    let secret = args.secret.clone().unwrap_or_else(|| format!("gimbal-{}-tls", args.name));
    print(&format!(
        "kubectl create secret generic {secret} --namespace {} {} {} {} --dry-run=client --output yaml \
         | kubectl apply --server-side --force-conflicts -f -\n",
        args.namespace,
        file(CERTIFICATE),
        file(KEY),
        file(AUTHORITY),
    ))
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
