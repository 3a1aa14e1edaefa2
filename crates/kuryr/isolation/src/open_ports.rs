//! Which ports are open to somebody.

use std::collections::BTreeMap;

use gimbal_model::Protocol;

use crate::range_set::RangeSet;

/// The first and the last port.
pub(crate) const EVERY_PORT: (u16, u16) = (1, u16::MAX);

/// What one rule is about: everything, or a range of ports of one protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PortRange {
    /// Every protocol, also those without ports.
    Everything,
    /// From the first to the last port of a protocol.
    Ports(Protocol, u16, u16),
}

/// Everything, or some ports. Ranges that overlap or touch are one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct OpenPorts {
    everything: bool,
    by_protocol: BTreeMap<Protocol, RangeSet>,
}

impl OpenPorts {
    pub(crate) fn open(&mut self, range: PortRange) {
        match range {
            PortRange::Everything => {
                self.everything = true;
                self.by_protocol.clear();
            }
            PortRange::Ports(..) if self.everything => {}
            PortRange::Ports(protocol, first, last) => {
                let ports = self.by_protocol.entry(protocol).or_default();
                *ports = ports.union(&[(first.into(), last.into())].into_iter().collect());
            }
        }
    }

    pub(crate) fn contains(&self, range: PortRange) -> bool {
        let has =
            |protocol: Protocol, range| self.by_protocol.get(&protocol).is_some_and(|ports| ports.contains(range));
        match range {
            _ if self.everything => true,
            PortRange::Everything => false,
            PortRange::Ports(protocol, first, last) => has(protocol, (first.into(), last.into())),
        }
    }

    pub(crate) fn ranges(&self) -> impl Iterator<Item = PortRange> + '_ {
        // Ports, as every number of these sets.
        let port = |number: u128| u16::try_from(number).unwrap_or(u16::MAX);
        let ports = self.by_protocol.iter().flat_map(move |(protocol, ranges)| {
            ranges.iter().map(move |(first, last)| PortRange::Ports(*protocol, port(first), port(last)))
        });
        self.everything.then_some(PortRange::Everything).into_iter().chain(ports)
    }
}
