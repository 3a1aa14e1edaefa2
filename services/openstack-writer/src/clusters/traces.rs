//! Traces that controllers begin, until what they are about is settled. Without I/O.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gimbal_kuryr_model::{DesiredKey, Text};
use gimbal_kuryr_wire::Kuryr;
use gimbal_octavia_registry::RegistryEvent;
use gimbal_session::{TraceContext, WriterOutput};

use super::{ClusterState, Clusters, Outputs};

/// The traces of a cluster's entries: of each entry that of the first change that is not settled.
#[derive(Debug, Default)]
pub(super) struct OpenTraces(BTreeMap<DesiredKey, (TraceContext, Instant)>);

/// A traced change that is settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettledTrace {
    pub(crate) cluster: Text,
    pub(crate) key: DesiredKey,
    pub(crate) trace: TraceContext,
    pub(crate) outcome: TraceOutcome,
    /// Time from when it came until the first change of OpenStack was sent for it, or until it was refused.
    pub(crate) queue: Duration,
    /// Time from then until it was as it was wanted; `None`: nothing was sent.
    pub(crate) changing: Option<Duration>,
}

/// What came of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TraceOutcome {
    /// OpenStack has it.
    Written,
    /// It is not tried.
    Rejected,
}

impl TraceOutcome {
    /// Returns its name in traces.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Rejected => "rejected",
        }
    }
}

impl OpenTraces {
    /// A traced change came.
    pub(super) fn begin(&mut self, key: DesiredKey, trace: TraceContext, now: Instant) {
        self.0.entry(key).or_insert((trace, now));
    }

    /// There is no such change, or its trace has ended.
    pub(super) fn forget(&mut self, key: &DesiredKey) {
        self.0.remove(key);
    }

    fn settle(
        &mut self,
        cluster: &Text,
        key: &DesiredKey,
        outcome: TraceOutcome,
        changing: Option<Duration>,
        now: Instant,
    ) -> Option<SettledTrace> {
        let (trace, came) = self.0.remove(key)?;
        let took = now.saturating_duration_since(came);
        // What was under way when it came began before it.
        let changing = changing.map(|changing| changing.min(took));
        let queue = took.saturating_sub(changing.unwrap_or_default());
        Some(SettledTrace { cluster: cluster.clone(), key: key.clone(), trace, outcome, queue, changing })
    }
}

impl ClusterState {
    /// Changes came with a trace. Returns their entries.
    pub(super) fn begin_traces(&mut self, outputs: &Outputs, trace: TraceContext, now: Instant) -> Vec<DesiredKey> {
        let changed = |output: &WriterOutput<Kuryr>| match output {
            WriterOutput::Changed(key) => Some(key.clone()),
            _ => None,
        };
        let keys: Vec<DesiredKey> = outputs.iter().filter_map(changed).collect();
        keys.iter().for_each(|key| self.traces.begin(key.clone(), trace, now));
        keys
    }
}

impl Clusters {
    /// Returns the traced changes that were settled since the last call.
    pub(crate) fn take_settled(&mut self) -> Vec<SettledTrace> {
        std::mem::take(&mut self.settled)
    }

    /// Changes of these entries came with a trace, and were checked. Those that the registry has nothing to do for end here.
    pub(super) fn forget_idle_traces(&mut self, name: &Text, keys: &[DesiredKey]) {
        let Some(state) = self.clusters.get_mut(name) else { return };
        let idle = keys.iter().filter(|key| !state.unchecked.contains(key) && !self.registry.awaits(name, key));
        idle.for_each(|key| state.traces.forget(key));
    }

    /// An entry is refused.
    pub(super) fn trace_refused(&mut self, name: &Text, key: &DesiredKey, now: Instant) {
        let Some(state) = self.clusters.get_mut(name) else { return };
        self.settled.extend(state.traces.settle(name, key, TraceOutcome::Rejected, None, now));
    }

    /// Settles what an event is the end of. What needed no change has no trace.
    pub(super) fn trace_event(&mut self, event: &RegistryEvent, now: Instant) {
        let (RegistryEvent::Served { cluster, key, changing, .. } | RegistryEvent::Removed { cluster, key, changing }) =
            event
        else {
            return;
        };
        let Some(state) = self.clusters.get_mut(cluster) else { return };
        match changing {
            Some(_) => {
                self.settled.extend(state.traces.settle(cluster, key, TraceOutcome::Written, *changing, now));
            }
            None => state.traces.forget(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use gimbal_kuryr_model::DesiredKind;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn trace(id: u8) -> TraceContext {
        TraceContext::new([id; 16], [id; 8]).unwrap()
    }

    #[test]
    fn the_first_change_that_is_not_settled_has_the_trace() {
        let (now, name) = (Instant::now(), Text::from("prod1"));
        let key = |name: &str| DesiredKey::new(DesiredKind::LoadBalancer, "shop", name);
        let mut traces = OpenTraces::default();
        traces.begin(key("web"), trace(1), now);
        traces.begin(key("web"), trace(2), now + SECOND);
        traces.begin(key("api"), trace(3), now);
        let at = now + 5 * SECOND;
        let settled = traces.settle(&name, &key("web"), TraceOutcome::Written, Some(2 * SECOND), at).unwrap();
        assert_eq!((settled.trace, settled.queue, settled.changing), (trace(1), 3 * SECOND, Some(2 * SECOND)));
        assert_eq!(traces.settle(&name, &key("web"), TraceOutcome::Written, None, at), None, "once");
        let refused = traces.settle(&name, &key("api"), TraceOutcome::Rejected, None, at).unwrap();
        assert_eq!((refused.queue, refused.changing, refused.outcome.as_str()), (5 * SECOND, None, "rejected"));

        // Something was being changed already.
        traces.begin(key("web"), trace(4), at);
        let settled = traces.settle(&name, &key("web"), TraceOutcome::Written, Some(9 * SECOND), at + SECOND).unwrap();
        assert_eq!((settled.queue, settled.changing), (Duration::ZERO, Some(SECOND)));
        traces.begin(key("web"), trace(5), at);
        traces.forget(&key("web"));
        assert_eq!(traces.settle(&name, &key("web"), TraceOutcome::Written, None, at), None);
    }
}
