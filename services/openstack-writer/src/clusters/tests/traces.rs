//! Traces of entries that nothing is to be done for any more.

use gimbal_session::TraceContext;

use super::*;

impl Ends {
    fn begin_trace(&mut self, key: &DesiredKey) {
        let state = self.all.clusters.get_mut("prod1").unwrap();
        state.traces.begin(key.clone(), TraceContext::new([1; 16], [1; 8]).unwrap(), self.now);
    }

    /// Whether the trace of an entry is open, which it is no longer then.
    fn ends_trace(&mut self, key: &DesiredKey) -> bool {
        self.all.trace_refused(&"prod1".into(), key, self.now);
        !self.all.take_settled().is_empty()
    }
}

/// Its stream was lost, and the next one does not have it.
#[test]
fn an_entry_that_is_gone_has_no_trace() {
    let web = key("team-a", "web");
    let mut ends = Ends::new(&[(web.clone(), present("u1", "services"))]);
    ends.run(5);
    ends.begin_trace(&web);
    ends.set(&web, None);
    assert!(!ends.is_served(&web) && !ends.ends_trace(&web));
}

#[test]
fn an_entry_that_is_found_as_it_was_has_no_trace() {
    let web = key("team-a", "web");
    for has_another_policy in [true, false] {
        let mut ends = Ends::new(&[(web.clone(), present("u1", "services"))]);
        ends.run(30);
        assert!(!ends.all.registry.awaits("prod1", &web));
        ends.begin_trace(&web);
        ends.all.clusters.get_mut("prod1").unwrap().unchecked.insert(web.clone());
        if has_another_policy {
            ends.all.check_all(&"prod1".into(), ends.now);
        } else {
            ends.set(&key("team-a", "new"), Some(present("u3", "services")));
        }
        assert!(!ends.ends_trace(&web), "{has_another_policy}");
    }
}
