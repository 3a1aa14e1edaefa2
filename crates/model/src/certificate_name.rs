//! Names by which a certificate identifies its owner.

/// Whether a text is a URI or DNS name without a wildcard, as in a certificate's subject alternative names (RFC 5280, 4.2.1.6).
#[must_use]
pub fn is_certificate_name(text: &str) -> bool {
    let printable = !text.is_empty() && text.bytes().all(|c| c.is_ascii_graphic());
    let uri = text.split_once("://").is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty());
    let dns = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'.';
    printable && !text.contains('*') && (uri || text.bytes().all(dns))
}

#[cfg(test)]
mod tests {
    use super::is_certificate_name;

    #[test]
    fn uris_and_dns_names() {
        for name in ["spiffe://gimbal.example/admin", "admin.gimbal.example", "a"] {
            assert!(is_certificate_name(name), "{name}");
        }
        for other in ["", "*.gimbal.example", "://a", "spiffe://", "a b", "a/b", "sha256:00", "spiffe://a/*", "é"] {
            assert!(!is_certificate_name(other), "{other}");
        }
    }
}
