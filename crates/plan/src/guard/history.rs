//! What a backend had, and what it lost, within the window.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The window is kept in so many pieces.
const PIECES: u32 = 64;

#[derive(Debug, Clone)]
struct Piece {
    from: Instant,
    until: Instant,
    peak: u64,
    last: u64,
    applied: u64,
}

/// What a writer before this one may have removed: it counts for a whole window more, for nobody knows when it was.
#[derive(Debug, Clone, Copy)]
struct Inherited {
    base: u64,
    lost: u64,
    until: Instant,
}

/// A sliding window. A piece counts until its last event is out of the window, so it counts rather too long than too
/// short.
#[derive(Debug, Clone)]
pub(super) struct History {
    window: Duration,
    start: u64,
    pieces: VecDeque<Piece>,
    inherited: Option<Inherited>,
}

impl History {
    pub(super) fn new(window: Duration) -> Self {
        Self { window, start: 0, pieces: VecDeque::new(), inherited: None }
    }

    /// So much is there, and nothing is known to be lost.
    pub(super) fn starting(window: Duration, total: u64) -> Self {
        Self { start: total, ..Self::new(window) }
    }

    /// Another length of the window, from now on.
    pub(super) fn resize(&mut self, window: Duration) {
        self.window = window;
    }

    /// A writer before this one measured by `base`, and may have removed up to `lost`.
    pub(super) fn inherit(&mut self, base: u64, lost: u64, now: Instant) {
        self.inherited = Some(Inherited { base, lost, until: now + self.window });
    }

    pub(super) fn total(&mut self, total: u64, now: Instant) {
        let piece = self.piece(now);
        piece.peak = piece.peak.max(total);
        piece.last = total;
    }

    pub(super) fn applied(&mut self, loss: u64, now: Instant) {
        self.piece(now).applied += loss;
    }

    /// A released drop is no reason to hold the next one, and what it took is no base to measure that by.
    pub(super) fn forgive(&mut self, loss: u64) {
        self.start = self.start.saturating_sub(loss);
        for piece in &mut self.pieces {
            piece.peak = piece.peak.saturating_sub(loss);
            piece.last = piece.last.saturating_sub(loss);
        }
        if let Some(inherited) = &mut self.inherited {
            inherited.base = inherited.base.saturating_sub(loss);
        }
    }

    /// The most that was held since the window's start, of which `total` are left. Not merely what was held at its start: a
    /// backend that has just come had nothing then, and would lose all of it with its first deletion.
    pub(super) fn base(&self, total: u64) -> u64 {
        let seen = self.pieces.iter().map(|piece| piece.peak).fold(self.start, u64::max);
        // What was inherited is believed as far as what is left and what went since can make it up.
        let inherited = self.inherited.map_or(0, |inherited| inherited.base.min(total + self.lost()));
        seen.max(inherited)
    }

    pub(super) fn lost(&self) -> u64 {
        let inherited = self.inherited.map_or(0, |inherited| inherited.lost);
        self.pieces.iter().map(|piece| piece.applied).sum::<u64>() + inherited
    }

    pub(super) fn advance(&mut self, now: Instant) {
        let window = self.window;
        self.inherited.take_if(|inherited| now >= inherited.until);
        while let Some(piece) = self.pieces.pop_front_if(|piece| now.saturating_duration_since(piece.until) >= window) {
            self.start = piece.last;
        }
    }

    fn piece(&mut self, now: Instant) -> &mut Piece {
        self.advance(now);
        let width = self.window / PIECES;
        let last = self.pieces.back().map_or(self.start, |piece| piece.last);
        let fresh = Piece { from: now, until: now, peak: last, last, applied: 0 };
        let mut piece =
            self.pieces.pop_back_if(|piece| now.saturating_duration_since(piece.from) <= width).unwrap_or(fresh);
        piece.until = piece.until.max(now);
        self.pieces.push_back(piece);
        let at = self.pieces.len() - 1;
        &mut self.pieces[at]
    }
}
