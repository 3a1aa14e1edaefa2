//! Which addresses a backend may publish. Everything that would lead traffic back into the Gimbal cluster's own nodes
//! is refused, whoever asks (CVE-2026-66788 is what happens otherwise).

use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;

/// Why an address is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum AddressRefusal {
    /// `0.0.0.0` or `::`.
    #[error("is unspecified")]
    Unspecified,
    /// `127.0.0.0/8` or `::1`.
    #[error("is a loopback address")]
    Loopback,
    /// `169.254.0.0/16` (cloud metadata lives there) or `fe80::/10`.
    #[error("is link-local")]
    LinkLocal,
    /// Multicast, or the IPv4 broadcast address.
    #[error("is multicast or broadcast")]
    Multicast,
    /// An IPv4 address in an IPv6 form: two spellings of one address would pass two different rules.
    #[error("is an IPv4 address written as IPv6")]
    Mapped,
    /// In one of the writer's `refusedAddresses`.
    #[error("is in a range of the Gimbal cluster's own (refusedAddresses)")]
    Refused,
    /// Not in the backend's `addresses.allow`.
    #[error("is not in the backend's allowed ranges (addresses.allow)")]
    NotAllowed,
}

/// The rules for one backend.
#[derive(Debug, Clone, Default)]
pub struct AddressRules {
    /// Ranges refused to every backend.
    pub refused: Vec<IpNet>,
    /// Ranges allowed to this one; `None` allows all that is not refused.
    pub allowed: Option<Vec<IpNet>>,
}

impl AddressRules {
    /// Whether `address` may be published.
    ///
    /// # Errors
    /// The first reason against it.
    pub fn check(&self, address: IpAddr) -> Result<(), AddressRefusal> {
        always_refused(address)?;
        if self.refused.iter().any(|net| net.contains(&address)) {
            return Err(AddressRefusal::Refused);
        }
        match &self.allowed {
            Some(allowed) if !allowed.iter().any(|net| net.contains(&address)) => Err(AddressRefusal::NotAllowed),
            _ => Ok(()),
        }
    }
}

fn always_refused(address: IpAddr) -> Result<(), AddressRefusal> {
    if address.is_unspecified() {
        return Err(AddressRefusal::Unspecified);
    }
    if address.is_loopback() {
        return Err(AddressRefusal::Loopback);
    }
    if address.is_multicast() {
        return Err(AddressRefusal::Multicast);
    }
    match address {
        IpAddr::V4(v4) if v4.is_link_local() => Err(AddressRefusal::LinkLocal),
        IpAddr::V4(v4) if v4.is_broadcast() => Err(AddressRefusal::Multicast),
        // "This network" is as little an endpoint as 0.0.0.0 itself.
        IpAddr::V4(v4) if v4.octets()[0] == 0 => Err(AddressRefusal::Unspecified),
        IpAddr::V4(_) => Ok(()),
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Err(AddressRefusal::LinkLocal),
        IpAddr::V6(v6) if embeds_v4(v6) => Err(AddressRefusal::Mapped),
        IpAddr::V6(_) => Ok(()),
    }
}

/// `::ffff:0:0/96` (mapped), `::/96` (compatible) and `64:ff9b::/96` (NAT64) each lead to an IPv4 address.
fn embeds_v4(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    address.to_ipv4().is_some() || segments[..6] == [0x64, 0xff9b, 0, 0, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        use AddressRefusal::{LinkLocal, Loopback, Mapped, Multicast, NotAllowed, Refused, Unspecified};
        let rules = AddressRules {
            refused: vec!["10.96.0.0/12".parse().unwrap()],
            allowed: Some(vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()]),
        };
        for (address, expected) in [
            ("10.1.2.3", Ok(())),
            ("fd00::1", Ok(())),
            ("10.96.0.1", Err(Refused)),
            ("192.0.2.1", Err(NotAllowed)),
            ("2001:db8::1", Err(NotAllowed)),
            ("127.0.0.1", Err(Loopback)),
            ("127.255.0.1", Err(Loopback)),
            ("::1", Err(Loopback)),
            ("0.0.0.0", Err(Unspecified)),
            ("0.1.2.3", Err(Unspecified)),
            ("::", Err(Unspecified)),
            ("169.254.169.254", Err(LinkLocal)),
            ("fe80::1", Err(LinkLocal)),
            ("224.0.0.1", Err(Multicast)),
            ("255.255.255.255", Err(Multicast)),
            ("ff02::1", Err(Multicast)),
            ("::ffff:127.0.0.1", Err(Mapped)),
            ("::ffff:10.1.2.3", Err(Mapped)),
            ("::10.1.2.3", Err(Mapped)),
            ("64:ff9b::a9fe:a9fe", Err(Mapped)),
        ] {
            assert_eq!(rules.check(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn default_rules_refuse_only_what_is_always_refused() {
        let rules = AddressRules::default();
        assert_eq!(rules.check("192.0.2.1".parse().unwrap()), Ok(()));
        assert_eq!(rules.check("127.0.0.1".parse().unwrap()), Err(AddressRefusal::Loopback));
    }
}
