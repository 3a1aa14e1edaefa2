//! Load balancers that are deleted to be made again. Only some of a project are at a time: where Octavia fails, or the configuration is
//! changed, all of them would go at once and come back one after the other, or not at all.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gimbal_kuryr_model::{DesiredEntry, Text};
use gimbal_octavia_plan::{BalancerStep, Block, CloudChange};

use crate::cell::{Cell, CellState};
use crate::cluster::ManagedCluster;
use crate::shared::RegistryCore;

/// How long others wait for one that does not come back: it may never do, for a reason of its own.
const AWAITED: Duration = Duration::from_secs(600);
/// When those that wait try again.
const BETWEEN_TRIES: Duration = Duration::from_secs(5);

/// What a load balancer keeps for its life and shares with others: its provider, flavor, zone and subnet.
type Shape = Vec<Option<Text>>;

/// A load balancer that was deleted to be made again.
#[derive(Debug)]
struct MissingBalancer {
    since: Instant,
    shape: Shape,
    /// Whether Octavia refuses to make it. What is sound and of the same shape stays then: it may be refused as well.
    is_refused: bool,
}

/// Owners whose load balancer was deleted to be made again, by project.
#[derive(Debug, Default)]
pub(crate) struct Replacements(BTreeMap<Text, BTreeMap<Text, MissingBalancer>>);

impl Replacements {
    /// Whether the load balancer of an owner may go now, where at most `most` of a project are missing at a time: if it is in
    /// `ERROR`, and if it is sound.
    fn has_place(&mut self, owner: &Text, cell: &Cell, most: u32, now: Instant) -> (bool, bool) {
        let Some(missing) = self.0.get_mut(&project_of(cell)) else { return (true, true) };
        let is_awaited = |one: &MissingBalancer| now < one.since + AWAITED;
        missing.retain(|_, one| one.is_refused || is_awaited(one));
        let is_few = |count: usize| u32::try_from(count).is_ok_and(|count| count < most.max(1));
        let is_missing = missing.contains_key(owner);
        let awaited = missing.values().filter(|one| is_awaited(one)).count();
        let shape = shape_of(cell);
        let as_refused = missing.values().filter(|one| is_awaited(one) || one.shape == shape).count();
        (is_missing || is_few(awaited), is_missing || is_few(as_refused))
    }

    fn begins(&mut self, owner: &Text, project: &Text, shape: Shape, now: Instant) {
        let missing = MissingBalancer { since: now, shape, is_refused: false };
        self.0.entry(project.clone()).or_default().entry(owner.clone()).or_insert(missing);
    }

    fn set_refused(&mut self, owner: &Text, is_refused: bool) {
        self.0.values_mut().filter_map(|missing| missing.get_mut(owner)).for_each(|one| one.is_refused = is_refused);
    }

    pub(crate) fn ended(&mut self, owner: &Text) {
        self.0.values_mut().for_each(|missing| _ = missing.remove(owner));
        self.0.retain(|_, missing| !missing.is_empty());
    }
}

/// Why the load balancer of an owner stays for now.
pub(crate) const AFTER_OTHERS: &str =
    "is made anew when others of its project, which were deleted to be made again, are back";

impl ManagedCluster {
    /// Whether the load balancer of an owner stays for now because too many others are missing.
    pub(crate) fn waits_for_others(&self, cell: &Cell, at: Duration) -> bool {
        matches!(cell.state, CellState::Resting) && cell.actor.waits_for_others(&cell.actor.step(&self.facts, at))
    }

    /// Lets the load balancer of an owner stay as it is for a while if too many others are missing.
    pub(crate) fn stays_for_now(&mut self, owner: &Text, cell: &mut Cell, shared: &RegistryCore, now: Instant) {
        let most = shared.settings.creates_by_project;
        let (in_error, sound) = self.replacements.has_place(owner, cell, most, now);
        let next = |has_place: bool| (!has_place).then(|| shared.at(now + BETWEEN_TRIES));
        cell.actor.stay_until(next(in_error), next(sound));
    }

    /// Takes note of a step that takes the only load balancer of an owner away that is to have one, or with which it has all that is
    /// wanted.
    pub(crate) fn note_replacement(&mut self, owner: &Text, cell: &Cell, step: &BalancerStep, now: Instant) {
        match step {
            BalancerStep::Change(CloudChange::DeleteBalancer { .. })
                if matches!(cell.wanted(), DesiredEntry::LoadBalancer(_)) && has_served(cell) =>
            {
                self.replacements.begins(owner, &project_of(cell), shape_of(cell), now);
            }
            // What is not let go is there, and what no repair makes well is not waited for.
            BalancerStep::Blocked(block) if cell.actor.has_balancer() || *block == Block::RepairBudget => {
                self.replacements.ended(owner);
            }
            // What is in its own way says nothing about others.
            BalancerStep::Blocked(Block::Conflict(_) | Block::Certificate(_)) => {}
            BalancerStep::Blocked(_) => self.replacements.set_refused(owner, true),
            BalancerStep::Done | BalancerStep::Gone => self.replacements.ended(owner),
            // It is being made, and awaited no longer than any other.
            _ if cell.actor.has_balancer() => self.replacements.set_refused(owner, false),
            _ => {}
        }
    }
}

/// Returns the project whose load balancers are counted with that of an owner: the one that it is in, wherever it is to be.
fn project_of(cell: &Cell) -> Text {
    match cell.actor.seen().balancers.as_slice() {
        [only] if !only.project.is_empty() => only.project.as_str().into(),
        _ => cell.project.clone(),
    }
}

/// Returns what an owner's load balancer is to have in common with others.
fn shape_of(cell: &Cell) -> Shape {
    let DesiredEntry::LoadBalancer(wanted) = cell.wanted() else { return Shape::new() };
    let header = &wanted.header;
    let (placement, subnet) = (&header.placement, &header.vip.subnet);
    vec![placement.provider.clone(), placement.flavor.clone(), placement.availability_zone.clone(), subnet.clone()]
}

/// Whether the only load balancer of an owner may have served. One that never has leaves no gap.
fn has_served(cell: &Cell) -> bool {
    matches!(cell.actor.seen().balancers.as_slice(), [only] if cell.actor.has_served(only))
}
