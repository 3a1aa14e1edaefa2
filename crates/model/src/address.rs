//! Decides which addresses a backend may publish. Every address that would lead traffic back into the Gimbal cluster's
//! own nodes is refused to all backends (see CVE-2026-66788).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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
    /// `169.254.0.0/16` (which has clouds' metadata services), `fe80::/10`, or the deprecated site-local `fec0::/10`.
    #[error("is link-local")]
    LinkLocal,
    /// A service of AWS, Alibaba Cloud, Azure, Google Cloud or Oracle for its own instances, at an address that is not
    /// link-local. It hands out an instance's configuration and credentials.
    #[error("is a cloud's metadata address")]
    Metadata,
    /// Multicast, or the IPv4 broadcast address.
    #[error("is multicast or broadcast")]
    Multicast,
    /// `240.0.0.0/4`, which no network uses (RFC 1112).
    #[error("is reserved")]
    Reserved,
    /// An IPv4 address in any IPv6 form: with two spellings, one address could pass under the rules for the other.
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressRules {
    /// Ranges refused to every backend.
    pub refused: Vec<IpNet>,
    /// Ranges allowed to this backend; `None` allows everything that is not refused.
    pub allowed: Option<Vec<IpNet>>,
}

impl AddressRules {
    /// Checks that `address` may be published.
    ///
    /// # Errors
    /// The first reason for which it is refused.
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

/// Metadata services of clouds at addresses that are not link-local.
const METADATA: [IpAddr; 7] = [
    // AWS: the metadata service, and EKS Pod Identity.
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
    // Google Cloud.
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    // Alibaba Cloud.
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    // Oracle Cloud.
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe)),
    // Azure (WireServer).
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
];

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
    if METADATA.contains(&address) {
        return Err(AddressRefusal::Metadata);
    }
    match address {
        IpAddr::V4(v4) if v4.is_link_local() => Err(AddressRefusal::LinkLocal),
        IpAddr::V4(v4) if v4.is_broadcast() => Err(AddressRefusal::Multicast),
        // "This network" (0.0.0.0/8) is as invalid for an endpoint as 0.0.0.0 itself.
        IpAddr::V4(v4) if v4.octets()[0] == 0 => Err(AddressRefusal::Unspecified),
        IpAddr::V4(v4) if v4.octets()[0] >= 240 => Err(AddressRefusal::Reserved),
        IpAddr::V4(_) => Ok(()),
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Err(AddressRefusal::LinkLocal),
        IpAddr::V6(v6) if v6.segments()[0] & 0xffc0 == 0xfec0 => Err(AddressRefusal::LinkLocal),
        IpAddr::V6(v6) if embeds_v4(v6) => Err(AddressRefusal::Mapped),
        IpAddr::V6(_) => Ok(()),
    }
}

/// Whether an IPv6 address leads to an IPv4 one. The embedded address is not checked: an IPv4 endpoint must be written
/// as IPv4, so that every rule for it applies.
fn embeds_v4(address: Ipv6Addr) -> bool {
    match address.segments() {
        // Compatible (RFC 4291 2.5.5.1; `::` and `::1` are judged before), mapped (2.5.5.2), translated (RFC 2765).
        [0, 0, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0, 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => true,
        // NAT64: the well-known prefix (RFC 6052) and the one for local use (RFC 8215).
        [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 1, ..] => true,
        // Teredo (RFC 4380) and 6to4 (RFC 3056).
        [0x2001, 0, ..] | [0x2002, ..] => true,
        // ISATAP (RFC 5214), under any prefix.
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        use AddressRefusal::{
            LinkLocal, Loopback, Mapped, Metadata, Multicast, NotAllowed, Refused, Reserved, Unspecified,
        };
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
            ("fd00:ec2::254", Err(Metadata)),
            ("100.100.100.200", Err(Metadata)),
            ("192.0.0.192", Err(Metadata)),
            ("fd20:ce::254", Err(Metadata)),
            ("168.63.129.16", Err(Metadata)),
            ("fd00:ec2::23", Err(Metadata)),
            ("fd00:c1::a9fe:a9fe", Err(Metadata)),
            ("168.63.129.17", Err(NotAllowed)),
            ("fd00:ec2::24", Ok(())),
            ("fec0::1", Err(LinkLocal)),
            ("feff::1", Err(LinkLocal)),
            ("240.0.0.1", Err(Reserved)),
            ("255.255.255.254", Err(Reserved)),
            ("fe80::1", Err(LinkLocal)),
            ("224.0.0.1", Err(Multicast)),
            ("255.255.255.255", Err(Multicast)),
            ("ff02::1", Err(Multicast)),
            ("::ffff:127.0.0.1", Err(Mapped)),
            ("::ffff:10.1.2.3", Err(Mapped)),
            ("::10.1.2.3", Err(Mapped)),
            ("::ffff:169.254.169.254", Err(Mapped)),
            ("::ffff:0:0", Err(Mapped)),
            ("::169.254.169.254", Err(Mapped)),
            ("::ffff:0:10.1.2.3", Err(Mapped)),
            ("64:ff9b::a9fe:a9fe", Err(Mapped)),
            ("64:ff9b::10.1.2.3", Err(Mapped)),
            ("64:ff9b:1:2::10.1.2.3", Err(Mapped)),
            ("2002:a9fe:a9fe::1", Err(Mapped)),
            ("2002:a01:203::1", Err(Mapped)),
            ("2001:0:4136:e378:8000:63bf:3fff:fdd2", Err(Mapped)),
            ("fd00::5efe:10.1.2.3", Err(Mapped)),
            ("fd00::200:5efe:7f00:1", Err(Mapped)),
            ("fe80::5efe:10.1.2.3", Err(LinkLocal)),
            // Similar to the refused forms, but none of them.
            ("64:ff9b:2::1", Err(NotAllowed)),
            ("2001:1::1", Err(NotAllowed)),
            ("2003::1", Err(NotAllowed)),
            ("fd00::1:5efe:a01:203", Ok(())),
            ("fd00::ffff:10.1.2.3", Ok(())),
            ("169.254.0.1", Err(LinkLocal)),
            ("169.253.255.255", Err(NotAllowed)),
            ("febf::1", Err(LinkLocal)),
            ("239.255.255.255", Err(Multicast)),
            ("ff0e::1", Err(Multicast)),
            ("10.111.255.255", Err(Refused)),
            ("10.112.0.0", Ok(())),
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
