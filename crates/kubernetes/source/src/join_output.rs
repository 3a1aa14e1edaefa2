//! A Service of the source and its slices, turned into the Service that is offered.

use std::collections::BTreeMap;
use std::sync::Arc;

use gimbal_kubernetes_join::JoinOutput;
use gimbal_model::{Endpoints, Header, PortGroup, PortSet, Service};

use crate::omission::{Omission, OmissionCounts};
use crate::slice_content::{SliceContent, best};

/// What is kept of a Service.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ServiceHeader {
    /// `Err` if the Service is not offered.
    pub(crate) header: Result<Arc<Header>, Omission>,
    /// How many ports are left out because they cannot be represented.
    pub(crate) bad_ports: u32,
    /// Whether the Service has a session affinity, which is not carried over.
    pub(crate) affinity: bool,
}

/// Joins headers and parts into [`Service`]s, and counts what is left out.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    counts: OmissionCounts,
}

impl Offers {
    pub(crate) fn skipped(&self) -> &BTreeMap<Omission, u64> {
        self.counts.counts()
    }
}

impl JoinOutput for Offers {
    type Header = ServiceHeader;
    type Part = SliceContent;
    type Value = Arc<Service>;

    fn join<'a>(header: &ServiceHeader, parts: impl Iterator<Item = &'a SliceContent>) -> Option<Arc<Service>> {
        let header = header.header.as_ref().ok()?;
        let mut groups: BTreeMap<&PortSet, Vec<&Endpoints>> = BTreeMap::new();
        for (ports, endpoints) in parts.flat_map(|part| &part.groups) {
            groups.entry(ports).or_default().push(endpoints);
        }
        let groups = groups.into_iter().map(|(ports, parts)| PortGroup {
            ports: ports.clone(),
            endpoints: match parts.as_slice() {
                // Usually one slice has a port set to itself: its endpoints are shared, not copied.
                [part] => (*part).clone(),
                parts => best(parts.iter().flat_map(|part| part.iter()).collect()),
            },
        });
        Some(Arc::new(Service::of_groups(header.clone(), groups)))
    }

    fn header_added(&mut self, header: &ServiceHeader) {
        header.skips(|skip, count| self.counts.add(skip, count));
    }

    fn header_removed(&mut self, header: &ServiceHeader) {
        header.skips(|skip, count| self.counts.subtract(skip, count));
    }

    fn part_added(&mut self, part: &SliceContent) {
        part.skips(|skip, count| self.counts.add(skip, count));
    }

    fn part_removed(&mut self, part: &SliceContent) {
        part.skips(|skip, count| self.counts.subtract(skip, count));
    }
}

impl ServiceHeader {
    fn skips(&self, mut count: impl FnMut(Omission, u64)) {
        let Self { header, bad_ports, affinity } = self;
        count(Omission::BadPort, (*bad_ports).into());
        count(Omission::SessionAffinity, (*affinity).into());
        if let Err(skip) = header {
            count(*skip, 1);
        }
    }
}

impl SliceContent {
    fn skips(&self, mut count: impl FnMut(Omission, u64)) {
        let Self { groups: _, skip, bad_addresses } = self;
        count(Omission::BadAddress, *bad_addresses);
        if let Some(skip) = skip {
            count(*skip, 1);
        }
    }
}
