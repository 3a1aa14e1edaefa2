//! Addresses in their canonical text. Octavia compares the texts of members' addresses.

use std::net::{IpAddr, Ipv4Addr};

use gimbal_kuryr_model::Text;

/// Reads an address. Like Kuryr, it takes IPv4 with leading zeros, as decimal numbers.
pub(crate) fn address(text: &str) -> Option<IpAddr> {
    text.parse().ok().or_else(|| zero_filled(text))
}

fn zero_filled(text: &str) -> Option<IpAddr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        let digits = part.len() <= 3 && part.bytes().all(|byte| byte.is_ascii_digit());
        *octet = if digits { part.parse().ok()? } else { return None };
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets).into())
}

/// Returns an address in its canonical text (RFC 5952), without a copy if it is there already.
pub(crate) fn canonical(text: &Text) -> Option<Text> {
    let address = address(text)?.to_string();
    Some(if address == **text { text.clone() } else { address.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, expected) in [
            ("10.0.0.1", Some("10.0.0.1")),
            ("010.000.08.1", Some("10.0.8.1")),
            ("FD00:0::1", Some("fd00::1")),
            ("fd00:0:0:0:0:0:0:1", Some("fd00::1")),
            ("10.0.0", None),
            ("10.0.0.1.2", None),
            ("0010.0.0.1", None),
            ("10.0.0.256", None),
            ("10.0.0.+1", None),
            ("10.0.0.", None),
            ("", None),
            ("web", None),
        ] {
            assert_eq!(canonical(&text.into()).as_deref(), expected, "{text}");
        }
    }
}
