//! What either end knows that the other one may not.

use std::time::Duration;

use gimbal_session::{ChangeAge, ChangeSince, Frame, Need};

use crate::common::{WIDE, agent, connect, frames, key, service, start, tell, welcome_naming};

#[test]
fn a_writer_gets_what_it_names() {
    let (now, second) = (start(), Duration::from_secs(1));
    let age = |waited, caused: Option<u32>| ChangeAge { waited: waited * second, caused: caused.map(|n| n * second) };
    let (all, known) = (vec![age(6, Some(2)), age(1, Some(3))], vec![age(1, None)]);
    for (named, expected) in [
        (&["change-age", "trace"][..], &all),
        (&["later", "change-age"], &all),
        (&[], &known),
        (&["trace", "change", "change-age-2"], &known),
    ] {
        let mut agent = agent(&[("a", service("1", [1])), ("b", service("1", [1]))]);
        let since = ChangeSince { reported: now + 4 * second, caused: Some(2 * second) };
        agent.set_since(key("b"), Some(service("2", [1])), since);
        assert_eq!(&*connect(&mut agent, now).capabilities, ["change-age", "trace"]);
        assert_eq!(agent.writer_capabilities(), [""; 0], "before Welcome");
        tell(&mut agent, welcome_naming(Need::All, WIDE, named), now);
        let ages = |frames: Vec<Frame>| frames.iter().filter_map(Frame::age).collect::<Vec<_>>();
        let mut sent = ages(frames(&mut agent, now + 10 * second));
        let since = ChangeSince { reported: now + 10 * second, caused: Some(3 * second) };
        agent.set_since(key("a"), Some(service("2", [1])), since);
        sent.extend(ages(frames(&mut agent, now + 11 * second)));
        assert_eq!(&sent, expected, "{named:?}");
        assert_eq!(agent.writer_capabilities(), named);
        assert_eq!(agent.writer_has("trace"), named.contains(&"trace"));
        agent.disconnected();
        assert!(!agent.writer_has("trace"), "it was that stream's");
    }
}
