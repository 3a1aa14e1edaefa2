//! Changes that can be distinguished: each puts its own address into a slice, and a watch reports when that address, or
//! a newer one of the same slice, is in the Gimbal cluster.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use gimbal_kubernetes_client::{Cluster, WatchEvent, WatchScope, watch};
use gimbal_kubernetes_objects::{EndpointSlice, keys};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use crate::times::Times;

/// Above every address that [`crate::fill`] uses: 10.128.0.0.
const FIRST: u32 = 0x0a80_0000;

/// The manager of slices that are written without Gimbal, in the label of Gimbal's slices.
pub const OTHER: &str = "gimbal-bench";

/// Returns the address of a change by its number.
#[must_use]
pub fn address(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(FIRST + number)
}

/// Returns the number of the change with this address, if it is one's.
#[must_use]
pub fn number(address: &str) -> Option<u32> {
    let address = u32::from(address.parse::<Ipv4Addr>().ok()?);
    address.checked_sub(FIRST).filter(|number| *number < 1 << 23)
}

/// Returns the newest change that a slice shows.
#[must_use]
pub fn newest(slice: &EndpointSlice) -> Option<u32> {
    slice.endpoints.iter().flat_map(|endpoint| &endpoint.addresses).filter_map(|address| number(address)).max()
}

/// A change in a source. Changes are numbered in the order of a run.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    /// Index of the changed slice.
    pub key: usize,
    /// Just before the change was sent to the source.
    pub begun: Instant,
    /// When the source had accepted it.
    pub taken: Instant,
}

/// A change that has reached the Gimbal cluster.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// The number of the change.
    pub number: u32,
    /// When the event was read.
    pub at: Instant,
}

/// A watch on the changes in a cluster, whether written by Gimbal or by something else.
pub struct Eyes {
    seen: mpsc::UnboundedReceiver<Seen>,
    _task: JoinSet<()>,
}

impl Eyes {
    /// Opens the watch, and returns once it is open.
    ///
    /// # Errors
    /// It does not open.
    pub async fn open(cluster: &Cluster, namespace: Option<&str>) -> anyhow::Result<Self> {
        let label_selector = Some(format!("{} in ({},{OTHER})", keys::SLICE_MANAGED_BY, keys::MANAGER));
        let scope = WatchScope { namespace: namespace.map(str::to_owned), label_selector, ..WatchScope::default() };
        let mut events = watch::<EndpointSlice>(cluster.clone(), scope);
        let mut listed = false;
        loop {
            match events.next().await {
                Some(WatchEvent::ListDone) => listed = true,
                Some(WatchEvent::Alive) if listed => break,
                Some(WatchEvent::Failed(error)) => return Err(error.into()),
                Some(_) => {}
                None => anyhow::bail!("the watch on the Gimbal cluster ended"),
            }
        }
        let (sender, seen) = mpsc::unbounded_channel();
        let mut task = JoinSet::new();
        task.spawn(async move {
            while let Some(event) = events.next().await {
                let WatchEvent::Applied(slice) = event else { continue };
                let Some(number) = newest(&slice) else { continue };
                if sender.send(Seen { number, at: Instant::now() }).is_err() {
                    return;
                }
            }
        });
        Ok(Self { seen, _task: task })
    }

    /// Returns a view of changes that something else sees, which goes on while `task` does.
    #[must_use]
    pub fn of(seen: mpsc::UnboundedReceiver<Seen>, task: JoinSet<()>) -> Self {
        Self { seen, _task: task }
    }

    /// Returns the changes seen, once the last change of every key is among them.
    ///
    /// # Errors
    /// No change arrives for `patience`, and some are missing.
    pub async fn all(&mut self, changes: &BTreeMap<u32, Change>, patience: Duration) -> anyhow::Result<Vec<Seen>> {
        let mut last: HashMap<usize, u32> = changes.iter().map(|(number, change)| (change.key, *number)).collect();
        let mut seen = Vec::new();
        while !last.is_empty() {
            let Ok(next) = tokio::time::timeout(patience, self.seen.recv()).await else {
                anyhow::bail!("the last changes of {} slices do not arrive", last.len());
            };
            let Some(next) = next else { anyhow::bail!("the watch on the Gimbal cluster ended") };
            if let Some(change) = changes.get(&next.number)
                && last.get(&change.key) == Some(&next.number)
            {
                last.remove(&change.key);
            }
            seen.push(next);
        }
        Ok(seen)
    }
}

/// How long changes took until they, or newer ones of the same key, were in the cluster.
#[derive(Debug, Clone, Default)]
pub struct Delays {
    /// From just before the change was sent to the source.
    pub whole: Vec<Duration>,
    /// From the source's answer. A change that was seen before the answer counts as zero.
    pub after: Vec<Duration>,
}

impl Delays {
    /// Returns the delays of these changes, all of which were seen.
    #[must_use]
    pub fn of(changes: &BTreeMap<u32, Change>, seen: &[Seen]) -> Self {
        let mut waiting: HashMap<usize, BTreeMap<u32, Change>> = HashMap::new();
        for (number, change) in changes {
            waiting.entry(change.key).or_default().insert(*number, *change);
        }
        let mut delays = Self::default();
        for Seen { number, at } in seen {
            let Some(of_key) = changes.get(number).and_then(|change| waiting.get_mut(&change.key)) else { continue };
            let newer = of_key.split_off(&(number + 1));
            for change in std::mem::replace(of_key, newer).values() {
                delays.whole.push(at.saturating_duration_since(change.begun));
                delays.after.push(at.saturating_duration_since(change.taken));
            }
        }
        delays
    }

    /// Adds the delays of another window.
    pub fn extend(&mut self, other: Self) {
        self.whole.extend(other.whole);
        self.after.extend(other.after);
    }

    /// Returns the times from the source's answer, sorted.
    #[must_use]
    pub fn times(&self) -> Times {
        Times::new(self.after.clone())
    }
}

/// Slices of a source that are changed in turn.
pub struct Load {
    source: Cluster,
    slices: Vec<EndpointSlice>,
    /// Held while a slice is put, with the newest change that was: of two concurrent puts, the older could win.
    turns: Vec<Arc<Mutex<u32>>>,
    /// How many of the slices are changed.
    among: usize,
    next: usize,
}

impl Load {
    /// Returns a load on all slices of a namespace.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn on(source: &Cluster, namespace: &str) -> anyhow::Result<Self> {
        let scope = WatchScope { namespace: Some(namespace.to_owned()), ..WatchScope::default() };
        Self::of(source, &scope).await
    }

    /// Returns a load on these slices.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn of(source: &Cluster, scope: &WatchScope) -> anyhow::Result<Self> {
        let mut slices = source.list::<EndpointSlice>(scope).await?;
        anyhow::ensure!(!slices.is_empty(), "no slices in {scope:?}");
        for slice in &mut slices {
            // The load is the only client that writes them, so versions need no comparison.
            slice.metadata.resource_version = "".into();
        }
        let turns = slices.iter().map(|_| Arc::default()).collect();
        Ok(Self { source: source.clone(), among: slices.len(), slices, turns, next: 0 })
    }

    /// From now on, only the first `count` slices are changed in turn.
    pub fn among(&mut self, count: usize) {
        self.among = count.clamp(1, self.slices.len());
    }

    /// Makes one change each `period`, numbered from `first` on, whether or not the source has accepted the previous
    /// one.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn run(&mut self, first: u32, count: u32, period: Duration) -> anyhow::Result<BTreeMap<u32, Change>> {
        let mut ticks = tokio::time::interval(period);
        let mut puts = JoinSet::new();
        for number in first..first + count {
            ticks.tick().await;
            let key = self.next % self.among;
            self.next += 1;
            let slice = &mut self.slices[key];
            if let Some(address) = slice.endpoints.first_mut().and_then(|endpoint| endpoint.addresses.first_mut()) {
                *address = self::address(number).to_string().into();
            }
            let (source, slice, turn) = (self.source.clone(), slice.clone(), self.turns[key].clone());
            puts.spawn(async move {
                let mut newest = turn.lock().await;
                let begun = Instant::now();
                // One that was overtaken is not put: the newer one stands for it.
                if *newest <= number {
                    source.replace(&slice).await?;
                    *newest = number;
                }
                anyhow::Ok((number, Change { key, begun, taken: Instant::now() }))
            });
        }
        let mut changes = BTreeMap::new();
        while let Some(put) = puts.join_next().await {
            changes.extend([put??]);
        }
        Ok(changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_change_of_the_same_slice_stands_for_the_older_ones() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let change = |key, begun| Change { key, begun: at(begun), taken: at(begun + 2) };
        let changes = [(5, change(0, 0)), (6, change(1, 1)), (7, change(0, 10)), (8, change(0, 20))].into();
        let seen = [(4, 3), (6, 5), (7, 30), (8, 21)].map(|(number, ms)| Seen { number, at: at(ms) });
        let delays = Delays::of(&changes, &seen);
        assert_eq!(delays.whole, [4, 30, 20, 1].map(Duration::from_millis));
        assert_eq!(delays.after, [2, 28, 18, 0].map(Duration::from_millis));
    }

    #[test]
    fn an_address_tells_its_change() {
        assert_eq!(number(&address(0).to_string()), Some(0));
        assert_eq!(number(&address(70_000).to_string()), Some(70_000));
        assert_eq!(["10.127.255.255", "11.0.0.0", "fd00::1"].map(number), [None; 3]);
    }
}
