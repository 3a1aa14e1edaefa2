//! What an actor remembers besides what is wanted and what was seen.

mod lacking;
mod lost;
mod repairs;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gimbal_kuryr_model::{CertificateHash, ListenerId, PoolId, Text};

use self::lost::LostChange;
pub(crate) use self::lost::Root;
pub use self::repairs::RepairBudget;
pub(crate) use self::repairs::RepairTime;
use crate::certificates::CertificateMemory;
use crate::member_turns::MemberTurns;
use crate::outcome::CloudAbility;
use crate::routing::same::SameParts;
use crate::seen::{Seen, SeenFloatingIp};
use crate::step::{BalancerStep, Block, Wait};
use crate::suspect::Suspect;
use crate::unfinished::UnfinishedParts;

/// How often the effect of a lost change is looked for before anything else is done, and the time between the looks: a slow
/// commit may come after the first.
const LOOKS: u32 = 3;
const BETWEEN_LOOKS: Duration = Duration::from_secs(5);

/// How long a look is one right before a change.
const RIGHT_BEFORE: Duration = Duration::from_secs(5);

/// The first and the longest pause after a failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// With this many parts that fail at once it is not theirs alone, and between two tries comes a pause for all of them.
const FAIL_TOGETHER: usize = 3;
const TOGETHER_PAUSE: Duration = Duration::from_secs(5);

/// After this many failures of a part in a row, after about 15 s, nothing waits for it any more.
const FAILS_ON: u32 = 4;

/// A part of what is wanted that can be refused while the others go on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PlanPart {
    /// The load balancer and its port.
    Balancer,
    /// One that is to take the place of a load balancer that serves, and its port.
    Successor,
    FloatingIp,
    /// Security groups of the VIP's port.
    Groups,
    /// Tags of Neutron's objects.
    Tags,
    /// A listener with its pool, or a change of what belongs to none that is wanted.
    Port(Option<ListenerId>),
    /// Who may connect to a listener.
    Ranges(ListenerId),
    /// The pool of a Service that routes lead to.
    Pool(Text),
    /// A policy, by its identity.
    Policy(String),
    /// Members that a pool has not yet.
    NewMembers(PoolId),
    /// The monitor of a pool.
    Monitor(PoolId),
    /// That no client connects to a listener.
    Closing(ListenerId),
    /// A certificate that is to be stored, by its hash.
    Certificate(CertificateHash),
    /// What the key manager shows.
    Secrets,
    /// What has this ID and is not wanted: a load balancer or port beside the one that is, a listener, a policy, or a pool.
    Removal(String),
}

impl PlanPart {
    /// Returns the part that a pool belongs to.
    pub(crate) fn of_pool(id: &PoolId) -> Self {
        match id {
            PoolId::Listener(id) => Self::Port(Some(*id)),
            PoolId::Service(id) => Self::Pool(id.clone()),
        }
    }
}

/// A part that is left alone.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LeftAlone {
    block: Block,
    until: Duration,
    /// Of what fails: how often in a row, and until when it is left alone even if something else is wanted.
    failing: Option<(u32, Duration)>,
}

/// A pause of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pause {
    until: Duration,
    /// Until when even if something else is wanted.
    least: Duration,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Memory {
    /// Whether OpenStack was asked since the start, and since the last change with an unknown outcome.
    pub(crate) looked: bool,
    /// When OpenStack was looked at, if nothing has happened since.
    pub(crate) just_looked: Option<Duration>,
    lost: Option<LostChange>,
    /// Whether a change was answered since the last look.
    pub(crate) changed: bool,
    /// When to look for what a request has done late that was given up.
    recheck: Option<Duration>,
    /// When OpenStack was looked at first, and last.
    looks: Option<(Duration, Duration)>,
    failures: u32,
    pause: Option<Pause>,
    /// Parts about which nothing can be done, or could.
    pub(crate) blocks: BTreeMap<PlanPart, LeftAlone>,
    /// The words of the last request about a part that was refused as invalid; unset where something else is there since.
    pub(crate) invalid: BTreeMap<PlanPart, Option<String>>,
    /// Until when a load balancer is made without its ports, which come one by one: one of them may be what is invalid.
    apart: Option<Duration>,
    /// Parts without our mark that the last look saw, and when one first saw them.
    strangers: BTreeMap<String, Duration>,
    /// Those of them that were there for a drift interval.
    condemned: BTreeSet<String>,
    /// Ports that the provider cannot serve, with its words, and until when that is believed.
    pub(crate) unsupported: BTreeMap<ListenerId, (String, Duration)>,
    /// What answers have shown to be missing, and until when that is believed.
    missing: BTreeMap<CloudAbility, Duration>,
    /// Pools whose members' IDs are not known.
    pub(crate) unread: BTreeSet<String>,
    repairs: BTreeMap<PlanPart, Vec<Duration>>,
    /// The load balancer whose failover was the last repair.
    pub(crate) failed_over: Option<String>,
    /// The load balancer that is to take another's place, and since when it is known.
    pub(crate) successor_since: Option<(String, Duration)>,
    /// What may be left of a creation that failed.
    pub(crate) suspect: Option<Suspect>,
    /// Parts that the provider may have left unfinished.
    pub(crate) unfinished: UnfinishedParts,
    /// The answer to the question who has the wanted floating IP, since the last look.
    pub(crate) asked_floating: Option<Option<SeenFloatingIp>>,
    /// The load balancer that was asked for by its ID without being the owner's, and until when it is taken for granted that there
    /// is one; unset: there is none, and never will be.
    pub(crate) asked_balancer: Option<(String, Option<Duration>)>,
    /// Load balancers that were seen while they were made, and not `ACTIVE` since.
    pub(crate) newborn: Vec<String>,
    pub(crate) was_active: bool,
    /// Until when a load balancer that serves is not deleted to be made again: one in `ERROR`, and one that is sound.
    pub(crate) repair_waits: Option<Duration>,
    pub(crate) change_waits: Option<Duration>,
    /// Floating IPs that had the mark and were found without it, and the description that each had.
    pub(crate) unmarked: BTreeMap<String, String>,
    /// When a floating IP was led from one port to another.
    pub(crate) moved: Option<Duration>,
    /// A port of ours that Octavia refuses because something uses it, since when, and whether that is for good.
    pub(crate) used_port: Option<(String, Duration, bool)>,
    /// Whether a creation waits because another's load balancer has a port of ours.
    pub(crate) given_away: bool,
    /// Whose the routes of policies were that still have another name, by the ID of the policy.
    pub(crate) also_named: BTreeMap<String, BTreeSet<Text>>,
    pub(crate) certificates: CertificateMemory,
    pub(crate) member_turns: Option<Box<MemberTurns>>,
}

/// Returns the key under which a member without our mark is remembered. A batch gives members no IDs.
pub(crate) fn member_key(pool: &str, address: &str, port: u16) -> String {
    format!("{pool}/{address}/{port}")
}

/// Returns the pause after a failure, after this number of others in a row, and the least that comes before another wish is tried.
fn pauses(failures: u32, at_least: Option<Duration>) -> (Duration, Duration) {
    let pause = FIRST_PAUSE.saturating_mul(1 << failures.min(16));
    // A mistake of whoever asks for a pause must not leave dead endpoints there for a day.
    let least = at_least.unwrap_or(FIRST_PAUSE).min(LONGEST_PAUSE);
    (pause.clamp(least, LONGEST_PAUSE), least)
}

impl LeftAlone {
    /// Whether it still matters. What has failed long ago has succeeded since, or nothing was left to be done.
    fn is_of_late(&self, now: Duration) -> bool {
        self.until + LONGEST_PAUSE > now
    }
}

impl Memory {
    /// Forgets what only the former wish has caused, but of parts that are wanted as before. What fails need not fail again, but
    /// one wish after another must not make a try without a pause of each.
    pub(crate) fn wish_changed(&mut self, same: Option<&SameParts>) {
        let has = |part: &PlanPart| same.is_some_and(|same| same.has(part));
        self.just_looked = None;
        self.blocks.retain(|part, one| {
            if has(part) {
                return true;
            }
            one.failing.as_mut().is_some_and(|(failures, least)| {
                *failures = 0;
                one.until = *least;
                true
            })
        });
        if let Some(pause) = &mut self.pause {
            pause.until = pause.least;
        }
        self.invalid.retain(|part, _| has(part));
        self.apart = None;
        if !same.is_some_and(SameParts::has_same_ports) {
            self.unsupported.clear();
        }
        self.asked_floating = None;
        self.failures = 0;
    }

    /// Takes note of a change whose answer was lost, when this was seen; `goes`: what it deletes.
    pub(crate) fn lost(&mut self, root: Root, goes: Option<&str>, seen: &Seen, now: Duration) {
        let had = root.ids(seen).into_iter().cloned().collect();
        self.lost = Some(LostChange { root, had, goes: goes.map(str::to_owned), since: now, looks: 0 });
    }

    /// Returns when to look again for what a change has done whose answer was lost.
    pub(crate) fn next_look(&self) -> Option<Duration> {
        self.lost.as_ref().map(|lost| lost.since + BETWEEN_LOOKS * lost.looks)
    }

    /// Takes note of a request that may still have its effect, and undo a later one then.
    pub(crate) fn may_come_late(&mut self, now: Duration) {
        self.recheck = Some(now + BETWEEN_LOOKS * LOOKS);
    }

    /// Returns when to look for what such a request has done.
    pub(crate) fn recheck(&self) -> Option<Duration> {
        self.recheck
    }

    /// Returns when to look for what a request has done that was sent before the first look, by a process that was killed for
    /// instance. `None`: a look has seen it.
    pub(crate) fn late_look(&self) -> Option<Duration> {
        let (first, last) = self.looks?;
        let due = first + BETWEEN_LOOKS * LOOKS;
        (last < due).then_some(due)
    }

    /// Leaves a part alone.
    pub(crate) fn block(&mut self, part: PlanPart, block: Block, until: Duration) {
        self.blocks.insert(part, LeftAlone { block, until, failing: None });
    }

    /// Leaves a part alone for a moment, in which nothing is wrong with it.
    pub(crate) fn set_aside(&mut self, part: PlanPart, now: Duration) {
        self.block(part, Block::Failing, now + FIRST_PAUSE);
    }

    /// Leaves a part alone no longer.
    pub(crate) fn unblock(&mut self, part: &PlanPart) {
        self.blocks.remove(part);
    }

    /// Returns why a part is left alone.
    pub(crate) fn block_of(&self, part: &PlanPart, now: Duration) -> Option<&Block> {
        let LeftAlone { block, until, .. } = self.blocks.get(part)?;
        (*until > now).then_some(block)
    }

    /// Whether a part goes on failing, so that nothing else waits for it.
    pub(crate) fn fails_on(&self, part: &PlanPart) -> bool {
        self.blocks.get(part).and_then(|one| one.failing).is_some_and(|(failures, _)| failures >= FAILS_ON)
    }

    /// Whether a change of a part was refused or has failed of late, whether or not it is time to try it again.
    pub(crate) fn was_refused(&self, part: &PlanPart, now: Duration) -> bool {
        self.blocks.get(part).is_some_and(|one| one.is_of_late(now))
    }

    /// Returns the step where nothing else can be done than what is left alone.
    pub(crate) fn left_alone(&self, part: &PlanPart, now: Duration) -> Option<BalancerStep> {
        let LeftAlone { block, until, .. } = self.blocks.get(part).filter(|one| one.until > now)?;
        Some(match block {
            Block::Failing => BalancerStep::Wait(Wait::Until(*until)),
            block => BalancerStep::Blocked(block.clone()),
        })
    }

    /// Returns the parts that are left alone, and why.
    pub(crate) fn blocked(&self, now: Duration) -> impl Iterator<Item = (&PlanPart, &Block)> {
        self.blocks.keys().filter_map(move |part| Some((part, self.block_of(part, now)?)))
    }

    /// Whether nothing is known of any part.
    pub(crate) fn knows_no_part(&self) -> bool {
        self.blocks.is_empty() && self.invalid.is_empty() && self.unsupported.is_empty()
    }

    /// Tries again what was refused as invalid: there is something else to be invalid about.
    pub(crate) fn forget_invalid(&mut self) {
        self.invalid.values_mut().for_each(|words| *words = None);
        self.blocks.retain(|_, one| !matches!(one.block, Block::Invalid(_)));
    }

    /// Tries again what a quota was in the way of.
    pub(crate) fn quota_freed(&mut self) {
        self.blocks.retain(|_, one| !matches!(one.block, Block::Quota(_)));
    }

    /// The same after members have left, which makes no room for policies. Members of a router leave all the time.
    pub(crate) fn members_left(&mut self) {
        self.blocks.retain(|part, one| matches!(part, PlanPart::Policy(_)) || !matches!(one.block, Block::Quota(_)));
    }

    /// Stops waiting for an address or a port that somebody else had: the owner has it now.
    pub(crate) fn address_found(&mut self) {
        self.blocks.retain(|part, one| *part != PlanPart::Balancer || !matches!(one.block, Block::Conflict(_)));
    }

    /// Takes note of a complete look.
    pub(crate) fn looked(
        &mut self,
        seen: &Seen,
        now: Duration,
        drift_interval: Duration,
        is_ours: impl Fn(&[String]) -> bool,
    ) {
        (self.looked, self.changed) = (true, false);
        self.just_looked = Some(now);
        self.looks.get_or_insert((now, now)).1 = now;
        self.recheck.take_if(|at| *at <= now);
        self.unread.clear();
        self.asked_floating = None;
        self.missing.retain(|_, until| *until > now);
        self.unsupported.retain(|_, (_, until)| *until > now);
        self.blocks.retain(|_, one| one.is_of_late(now));
        // A look that came early says nothing about a commit that comes late.
        let is_due = self.next_look().is_none_or(|due| due <= now);
        if let Some(lost) = self.lost.as_mut().filter(|_| is_due) {
            lost.looks += 1;
            if lost.is_found(seen) || lost.looks >= LOOKS {
                self.lost = None;
            }
        }
        let mut strangers = BTreeSet::new();
        for balancer in &seen.balancers {
            strangers.extend(balancer.listeners.iter().filter(|one| !is_ours(&one.tags)).map(|one| one.id.clone()));
            let policies = balancer.listeners.iter().flat_map(|one| &one.policies);
            strangers.extend(policies.filter(|one| !is_ours(&one.tags)).map(|one| one.id.clone()));
            for pool in &balancer.pools {
                if !is_ours(&pool.tags) {
                    strangers.insert(pool.id.clone());
                }
                strangers.extend(pool.monitor.iter().map(|monitor| monitor.id.clone()));
                let members = pool.members.iter().filter(|one| !is_ours(&one.tags));
                strangers.extend(members.map(|one| member_key(&pool.id, &one.address, one.port)));
            }
        }
        strangers.extend(seen.floating.iter().map(|one| one.id.clone()));
        let since = |one: &String| self.strangers.get(one).copied().unwrap_or(now);
        let strangers: BTreeMap<String, Duration> =
            strangers.into_iter().map(|one| (one.clone(), since(&one))).collect();
        let stayed = strangers.iter().filter(|(_, since)| **since + drift_interval <= now);
        self.condemned = stayed.map(|(one, _)| one.clone()).collect();
        self.strangers = strangers;
    }

    /// Whether OpenStack was ever looked at.
    pub(crate) fn has_looked(&self) -> bool {
        self.looks.is_some()
    }

    /// Forgets what is in the way for now, as if OpenStack had just been looked at.
    pub(crate) fn clear_the_way(&mut self, now: Duration) {
        (self.looked, self.just_looked, self.looks) = (true, Some(now), None);
        (self.lost, self.recheck, self.pause, self.moved) = (None, None, None, None);
        self.blocks.clear();
        self.invalid.clear();
    }

    /// Whether OpenStack was looked at right before: a change may have waited in line since then.
    pub(crate) fn has_just_looked(&self, now: Duration) -> bool {
        self.just_looked.is_some_and(|at| now < at + RIGHT_BEFORE)
    }

    /// Whether looks have seen a part that is not marked for a drift interval.
    pub(crate) fn is_condemned(&self, key: &str) -> bool {
        self.condemned.contains(key)
    }

    /// Takes note of a failure, and pauses before the next try.
    pub(crate) fn failed(&mut self, now: Duration, at_least: Option<Duration>) {
        let (pause, least) = pauses(self.failures, at_least);
        self.failures += 1;
        self.pause = Some(Pause { until: now + pause, least: now + least });
    }

    /// Pauses for that long, which is no failure.
    pub(crate) fn pause(&mut self, now: Duration, time: Duration) {
        let until = now + time;
        self.pause = Some(Pause { until, least: until });
    }

    /// Returns when the pause ends.
    pub(crate) fn paused(&self, now: Duration) -> Option<Duration> {
        self.pause.map(|pause| pause.until).filter(|until| *until > now)
    }

    /// Takes note of the failure of one part. The others go on meanwhile.
    pub(crate) fn part_failed(&mut self, part: PlanPart, now: Duration, at_least: Option<Duration>) {
        let known = self.blocks.get(&part).filter(|one| one.is_of_late(now));
        let failures = known.and_then(|one| one.failing).map_or(0, |(failures, _)| failures);
        let (pause, least) = pauses(failures, at_least);
        let (until, failing) = (now + pause, Some((failures + 1, now + least)));
        self.blocks.insert(part, LeftAlone { block: Block::Failing, until, failing });
        let fails = |one: &LeftAlone| one.failing.is_some() && one.until > now;
        // The key manager has troubles of its own.
        let counts = |(part, one): &(&PlanPart, &LeftAlone)| {
            !matches!(part, PlanPart::Certificate(_) | PlanPart::Secrets) && fails(one)
        };
        if self.blocks.iter().filter(counts).count() >= FAIL_TOGETHER {
            self.pause(now, TOGETHER_PAUSE);
        }
    }

    /// Whether something could not be stored of late.
    pub(crate) fn fails_to_store(&self, now: Duration) -> bool {
        let mut all = self.blocks.iter().filter(|(part, _)| matches!(part, PlanPart::Certificate(_)));
        all.any(|(_, one)| one.failing.is_some() && one.is_of_late(now))
    }

    /// Whether the time has come to try a part again that has failed, and the last look was before: it may have been done late.
    pub(crate) fn is_retry_blind(&self, now: Duration) -> bool {
        let last = self.looks.map(|(_, last)| last);
        let is_due =
            |one: &LeftAlone| one.failing.is_some() && one.until <= now && last.is_none_or(|last| last < one.until);
        self.blocks.values().any(is_due)
    }

    /// Returns when the first of the parts that are left alone is to be tried again.
    pub(crate) fn retry_at(&self, now: Duration) -> Option<Duration> {
        let asked = self.asked_balancer.iter().filter_map(|(_, until)| *until);
        let unsupported = self.unsupported.values().map(|(_, until)| *until);
        let all = self.blocks.values().map(|one| one.until).chain(asked).chain(unsupported);
        all.filter(|until| *until > now).min()
    }

    /// Whether some part has failed, not long ago or long ago.
    pub(crate) fn has_failing(&self) -> bool {
        self.blocks.values().any(|one| one.failing.is_some())
    }

    pub(crate) fn succeeded(&mut self, part: Option<&PlanPart>) {
        self.failures = 0;
        self.pause = None;
        if let Some(part) = part {
            self.invalid.remove(part);
            self.blocks.retain(|one, alone| one != part || alone.failing.is_none());
        }
    }
}
