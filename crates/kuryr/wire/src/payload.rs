//! The payload: load balancers with their members.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use gimbal_kuryr_model::{
    CertificateContent, CertificateHash, CloudFacts, DesiredChange, DesiredEntry, DesiredKey, DesiredLoadBalancer,
    DesiredMember, DesiredMembers, LoadBalancerHeader, LoadBalancerReport, LoadBalancerUpdate, MemberChange, PoolId,
    Text,
};
use gimbal_model::Digest;
use gimbal_session::{Entry, EntryChange, Payload, capability};

use crate::{KuryrReason, PackedEntry, PackedReport, size};

/// What a cluster wants in OpenStack, by kind, namespace and name of the custom resource that says so.
///
/// The header of an entry has `known`, which is no wish: it says whether the status of the custom resource names what
/// exists, and makes the writer ask OpenStack before it believes what it remembers. It is a part of header and digest,
/// so that a change of it reaches the writer; nothing in OpenStack differs by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kuryr;

/// Everything of an entry except its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DesiredHeader {
    /// A load balancer is wanted.
    LoadBalancer {
        /// Generation of the custom resource.
        generation: i64,
        /// What is wanted.
        header: Arc<LoadBalancerHeader>,
    },
    /// Its owner is going.
    Deleting {
        /// UID of the owner.
        owner: Text,
    },
}

impl Payload for Kuryr {
    type Key = DesiredKey;
    type Entry = DesiredEntry;
    type Kept = PackedEntry;
    type Header = DesiredHeader;
    type Part = DesiredMember;
    type PartChange = MemberChange;
    type Reason = KuryrReason;
    type Report = LoadBalancerReport;
    type StoredReport = PackedReport;
    type Facts = CloudFacts;
    type Hash = CertificateHash;
    type Content = CertificateContent;

    const AN_ENTRY: &'static str = "a load balancer";
    const ENTRIES: &'static str = "load balancers";
    const PARTS: &'static str = "members";
    const INDIVISIBLE: &'static str = "everything except the members";
    /// A load balancer whose owner is not gone must not be taken for an orphan's.
    const KEEPS_TOO_LARGE: bool = true;
    /// One load balancer that cannot be offered must not keep the others of its namespace from a new writer.
    const SENDS_UNKNOWN: bool = true;

    const CAPABILITIES: &'static [Cow<'static, str>] = &[Cow::Borrowed(capability::TRACE)];

    /// Nothing is changed in OpenStack without a recent one (docs/way-back.md#rule-6), so one that is late should not stop
    /// the work.
    const HEARTBEAT: Duration = Duration::from_secs(3);

    fn report_len(report: &LoadBalancerReport) -> usize {
        size::report(report)
    }

    fn facts_len(facts: &CloudFacts) -> usize {
        size::facts(facts)
    }
}

impl Entry<Kuryr> for DesiredEntry {
    type Changes<'a> = LastPools<'a>;

    /// What is going has no members; those that came for it are dropped.
    fn new(header: Arc<DesiredHeader>, parts: Vec<DesiredMember>) -> Self {
        match Arc::unwrap_or_clone(header) {
            DesiredHeader::LoadBalancer { generation, header } => {
                Self::LoadBalancer(DesiredLoadBalancer { generation, header, members: DesiredMembers::new(parts) })
            }
            DesiredHeader::Deleting { owner } => Self::Deleting { owner },
        }
    }

    fn header(&self) -> Arc<DesiredHeader> {
        Arc::new(match self {
            Self::LoadBalancer(DesiredLoadBalancer { generation, header, members: _ }) => {
                DesiredHeader::LoadBalancer { generation: *generation, header: header.clone() }
            }
            Self::Deleting { owner } => DesiredHeader::Deleting { owner: owner.clone() },
        })
    }

    fn parts(&self) -> impl Iterator<Item = DesiredMember> {
        members(self).iter().cloned()
    }

    fn part_count(&self) -> usize {
        members(self).len()
    }

    fn digest(&self, key: &DesiredKey) -> Digest {
        self.digest(key)
    }

    fn between(old: Option<&Self>, new: Option<&Self>) -> Option<EntryChange<Kuryr>> {
        DesiredChange::between(old, new).map(|change| match change {
            DesiredChange::Replace(entry) => EntryChange::Replace(entry),
            DesiredChange::Update(LoadBalancerUpdate { generation, header, members }) => {
                let changed = generation.is_some() || header.is_some();
                EntryChange::Update { header: new.filter(|_| changed).map(Entry::header), parts: members }
            }
            DesiredChange::Remove => EntryChange::Remove,
        })
    }

    fn update(
        &mut self,
        key: &DesiredKey,
        digest: &mut Digest,
        header: Option<Arc<DesiredHeader>>,
        parts: Vec<MemberChange>,
    ) {
        match (self, header.map(Arc::unwrap_or_clone)) {
            (Self::LoadBalancer(held), None) => {
                held.update(key, digest, LoadBalancerUpdate { members: parts, ..LoadBalancerUpdate::default() });
            }
            (Self::LoadBalancer(held), Some(DesiredHeader::LoadBalancer { generation, header })) => {
                // Most generations change members alone, and a header is the larger part of a digest's work.
                let header = (held.header != header).then_some(header);
                let update = LoadBalancerUpdate { generation: Some(generation), header, members: parts };
                held.update(key, digest, update);
            }
            // An honest agent replaces the whole entry where it begins to go, or comes back.
            (entry, Some(header)) => {
                let set = parts.into_iter().filter_map(|change| match change {
                    MemberChange::Set(member) => Some(member),
                    MemberChange::Gone(_) => None,
                });
                *entry = Self::new(Arc::new(header), set.collect());
                *digest = entry.digest(key);
            }
            (Self::Deleting { .. }, None) => {}
        }
    }

    fn is_deleting(&self) -> bool {
        self.is_deleting()
    }

    fn header_len(header: &DesiredHeader) -> usize {
        size::header(header)
    }

    fn part_len(before: Option<&DesiredMember>, part: &DesiredMember) -> usize {
        let group = (before.map(size::group_of) == Some(size::group_of(part))).then_some(0);
        group.unwrap_or_else(|| size::group(part)) + size::member(part)
    }

    fn change_len<'a>(frame: &mut LastPools<'a>, change: &'a MemberChange) -> usize {
        match change {
            MemberChange::Set(member) => {
                let group = size::group_of(member);
                let group_len = if frame.set.replace(group) == Some(group) { 0 } else { size::group(member) };
                group_len + size::member(member)
            }
            MemberChange::Gone(id) => {
                let group_len =
                    if frame.gone.replace(&id.pool) == Some(&id.pool) { 0 } else { size::gone_group(&id.pool) };
                group_len + size::GONE
            }
        }
    }
}

fn members(entry: &DesiredEntry) -> &[DesiredMember] {
    match entry {
        DesiredEntry::LoadBalancer(wanted) => wanted.members.as_slice(),
        DesiredEntry::Deleting { .. } => &[],
    }
}

/// What [`Entry::change_len`] has seen of an update, which has a list of members that are set and one of those that are
/// gone. In each, members that follow each other in one pool share a group.
#[derive(Debug, Default)]
pub struct LastPools<'a> {
    set: Option<(&'a PoolId, Option<&'a Text>)>,
    gone: Option<&'a PoolId>,
}
