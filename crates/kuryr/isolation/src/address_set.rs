//! Sets of addresses of both families, read from ranges and written as the fewest ranges.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use gimbal_model::Family;
use ipnet::{IpNet, Ipv4Subnets, Ipv6Net, Ipv6Subnets};

use crate::range_set::RangeSet;

/// Addresses of both families.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct AddressSet {
    v4: RangeSet,
    v6: RangeSet,
}

impl AddressSet {
    /// Every address of both families.
    pub(crate) fn everyone() -> Self {
        [everyone_of(Family::V4), everyone_of(Family::V6)].into_iter().collect()
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let (ranges, number) = match address {
            IpAddr::V4(address) => (&self.v4, u128::from(address.to_bits())),
            IpAddr::V6(address) => (&self.v6, address.to_bits()),
        };
        ranges.contains((number, number))
    }

    pub(crate) fn intersect(&self, other: &Self) -> Self {
        Self { v4: self.v4.intersect(&other.v4), v6: self.v6.intersect(&other.v6) }
    }

    pub(crate) fn subtract(&self, other: &Self) -> Self {
        Self { v4: self.v4.subtract(&other.v4), v6: self.v6.subtract(&other.v6) }
    }

    /// The fewest ranges that hold these addresses and no other, IPv4 first, in ascending order.
    pub(crate) fn ranges(&self) -> Vec<IpNet> {
        // Below 2^32, as every number of this set.
        let v4 = |bits: u128| Ipv4Addr::from_bits(u32::try_from(bits).unwrap_or(u32::MAX));
        let v4 = self.v4.iter().flat_map(|(first, last)| Ipv4Subnets::new(v4(first), v4(last), 0)).map(IpNet::V4);
        let v6 = |bits: u128| Ipv6Addr::from_bits(bits);
        let v6 = self.v6.iter().flat_map(|(first, last)| Ipv6Subnets::new(v6(first), v6(last), 0)).map(IpNet::V6);
        v4.chain(v6).collect()
    }
}

impl FromIterator<IpNet> for AddressSet {
    fn from_iter<I: IntoIterator<Item = IpNet>>(ranges: I) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for range in ranges {
            match range {
                IpNet::V4(range) => v4.push((range.network().to_bits().into(), range.broadcast().to_bits().into())),
                IpNet::V6(range) => v6.push((range.network().to_bits(), range.broadcast().to_bits())),
            }
        }
        Self { v4: v4.into_iter().collect(), v6: v6.into_iter().collect() }
    }
}

/// Every address of a family.
pub(crate) fn everyone_of(family: Family) -> IpNet {
    match family {
        Family::V4 => IpNet::V4(ipnet::Ipv4Net::default()),
        Family::V6 => IpNet::V6(Ipv6Net::default()),
    }
}

/// The family of a range.
pub(crate) fn family_of(range: IpNet) -> Family {
    Family::of(range.addr())
}

/// Reads a range as the API server takes it: bits after the prefix count for nothing, and IPv4 may be written as IPv6.
pub(crate) fn parse_range(text: &str) -> Option<IpNet> {
    /// How long the prefix is under which IPv6 has IPv4.
    const MAPPED: u8 = 96;
    let range: IpNet = text.parse().ok()?;
    if let IpNet::V6(v6) = range
        && let Some(address) = v6.addr().to_ipv4_mapped()
        && let Some(length) = v6.prefix_len().checked_sub(MAPPED)
    {
        return IpNet::new(address.into(), length).ok().map(|v4| v4.trunc());
    }
    Some(range.trunc())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        parse_range(text).unwrap()
    }

    fn texts(set: &AddressSet) -> Vec<String> {
        set.ranges().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_read_as_a_range() {
        for (text, expected) in [
            ("10.0.0.0/8", Some("10.0.0.0/8")),
            ("10.1.2.3/8", Some("10.0.0.0/8")),
            ("10.1.2.3/32", Some("10.1.2.3/32")),
            ("fd00::1/64", Some("fd00::/64")),
            ("::ffff:10.1.2.3/104", Some("10.0.0.0/8")),
            ("::/0", Some("::/0")),
            ("10.0.0.0/33", None),
            ("10.0.0.0", None),
            ("10.0.0/8", None),
            ("010.0.0.0/8", Some("10.0.0.0/8")),
            ("10.0.0.0/+8", None),
            ("", None),
        ] {
            assert_eq!(parse_range(text).map(|range| range.to_string()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn neighbours_are_joined() {
        let set: AddressSet = ["10.0.0.1/32", "10.0.0.0/32", "10.0.0.2/31", "fd00::/65", "fd00:0:0:0:8000::/65"]
            .into_iter()
            .map(net)
            .collect();
        assert_eq!(texts(&set), ["10.0.0.0/30", "fd00::/64"]);
        assert_eq!(texts(&AddressSet::everyone()), ["0.0.0.0/0", "::/0"]);
        let ends: AddressSet = ["0.0.0.0/32", "255.255.255.255/32"].into_iter().map(net).collect();
        assert_eq!(texts(&ends), ["0.0.0.0/32", "255.255.255.255/32"]);
    }

    #[test]
    fn a_range_without_a_part_of_it() {
        let set = |text: &str| AddressSet::from_iter([net(text)]);
        assert_eq!(texts(&set("10.0.0.0/30").subtract(&set("10.0.0.1/32"))), ["10.0.0.0/32", "10.0.0.2/31"]);
        assert_eq!(set("10.0.0.0/30").subtract(&set("10.0.0.0/8")), AddressSet::default());
        assert_eq!(texts(&set("0.0.0.0/0").subtract(&set("0.0.0.0/1"))), ["128.0.0.0/1"]);
        assert_eq!(texts(&set("10.0.0.0/30").subtract(&set("::/0"))), ["10.0.0.0/30"]);
    }
}
