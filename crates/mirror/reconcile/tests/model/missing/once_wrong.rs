//! Histories that random ones have found.

use super::{Op, play, play_everyday};

/// Each of these histories removed too much, or held what is no loss, before the guard counted all places of a Service,
/// writes in progress, released endpoints that still exist, and endpoints from before an agent's first data.
#[test]
fn histories_that_once_went_wrong() {
    use Op::{Approve, Calm, Many, Move, Pass, Remove, RestartWriter, Run, Set};
    let missed = [
        vec![Many(1, 0, 6, false), Calm, Approve(1), Set(1, 7, 0), Calm],
        vec![
            Remove(0, 3),
            Set(0, 5, 0),
            Remove(0, 2),
            Move(0, true),
            Set(0, 6, 3),
            Set(0, 4, 0),
            Set(0, 2, 0),
            Calm,
            Set(0, 1, 0),
            Move(0, false),
            RestartWriter,
            Calm,
        ],
        vec![
            Set(1, 4, 0),
            Move(1, true),
            Calm,
            Calm,
            Calm,
            Remove(1, 6),
            Set(1, 0, 0),
            Calm,
            Remove(1, 2),
            Pass(25692),
            RestartWriter,
            Pass(28808),
            Set(1, 5, 0),
            Remove(1, 1),
            Calm,
        ],
        vec![
            Move(1, true),
            Set(1, 6, 0),
            Many(1, 3, 6, false),
            Remove(1, 8),
            Calm,
            Move(1, false),
            Set(1, 1, 0),
            RestartWriter,
            Calm,
        ],
        vec![Remove(1, 1), Many(1, 0, 6, false), Run(10), Many(1, 0, 6, true), Approve(1), Pass(15000), Run(5)],
        // The hold is met again, and released, in one step with the end of the snapshot.
        vec![
            Many(1, 2, 7, false),
            Calm,
            Remove(1, 1),
            Calm,
            Set(1, 0, 0),
            Calm,
            Calm,
            Remove(1, 7),
            Remove(1, 8),
            Calm,
            Pass(23031),
            RestartWriter,
            Calm,
            Calm,
            Calm,
            RestartWriter,
            Set(1, 2, 0),
            Pass(27969),
            Calm,
        ],
    ];
    for ops in missed {
        play(ops.clone()).unwrap_or_else(|error| panic!("{ops:?}: {error}"));
    }
    let held = [
        vec![
            Remove(0, 8),
            Remove(0, 2),
            Move(0, true),
            Set(0, 8, 5),
            Remove(0, 8),
            Remove(0, 3),
            Remove(0, 4),
            Set(0, 0, 0),
        ],
        vec![
            Many(0, 2, 7, false),
            Set(0, 3, 9),
            Set(0, 0, 11),
            Set(0, 7, 10),
            Move(0, true),
            Set(0, 2, 1),
            Set(0, 3, 5),
            Set(0, 7, 0),
            Set(0, 8, 0),
        ],
        vec![
            Remove(1, 3),
            Remove(1, 2),
            Remove(1, 4),
            Move(1, true),
            Set(1, 5, 0),
            Set(1, 2, 8),
            Set(1, 0, 0),
            Set(1, 1, 0),
        ],
    ];
    for ops in held {
        play_everyday(false, ops.clone()).unwrap_or_else(|error| panic!("{ops:?}: {error}"));
    }
}
