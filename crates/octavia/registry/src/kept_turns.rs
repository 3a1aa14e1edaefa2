//! Lines in which changes wait. What somebody has seen grows old there: who has to look again when it is his turn keeps that turn,
//! so that he does not see it grow old once more.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use gimbal_kuryr_model::Text;
use gimbal_schedule::Urgency;

use crate::cell::{Cell, CellState};
use crate::cluster::ManagedCluster;
use crate::pace::Line;

/// The most that look at a time: more would wait for each other, and look once more.
const MOST: usize = 8;

/// Those whose turn it is.
#[derive(Debug, Default)]
pub(crate) struct KeptTurns {
    /// Who looks, and the line that he was first in.
    looking: BTreeMap<Text, Line>,
    /// Who has looked.
    back: VecDeque<(Line, Text)>,
}

impl KeptTurns {
    /// Whether no one waits whose change may be sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.back.is_empty()
    }
}

impl ManagedCluster {
    /// Lets an owner get in line for its next change.
    pub(crate) fn get_in_line(&mut self, owner: &Text, cell: &mut Cell, line: Line, urgency: Urgency) {
        cell.state = CellState::InLine(line.clone());
        if self.kept_turns.looking.remove(owner).is_some_and(|kept| kept == line) {
            self.kept_turns.back.push_back((line, owner.clone()));
        } else {
            self.lines.entry(line).or_default().push(owner, &cell.key.namespace, urgency);
        }
    }

    /// Lets an owner keep its turn if that made it look.
    pub(crate) fn keep_turn(&mut self, owner: &Text, cell: &Cell, line: &Line) {
        if matches!(cell.state, CellState::InLine(Line::Looks)) {
            self.kept_turns.looking.insert(owner.clone(), line.clone());
        }
    }

    /// Returns whose turn it is in a line.
    pub(crate) fn next_in_line(&mut self, line: &Line, now: Instant) -> Option<Text> {
        let KeptTurns { looking, back } = &mut self.kept_turns;
        if let Some(at) = back.iter().position(|(one, _)| one == line) {
            return back.remove(at).map(|(_, owner)| owner);
        }
        let is_at_it = |cell: &Cell| {
            matches!(cell.state, CellState::Ready | CellState::Looking(_) | CellState::InLine(Line::Looks))
        };
        looking.retain(|owner, _| self.cells.get(owner).is_some_and(|cell| is_at_it(cell)));
        if looking.values().filter(|one| *one == line).count() >= MOST {
            return None;
        }
        self.lines.get_mut(line)?.pop(now)
    }
}
