//! The page size of lists, adapted to how fast a cloud answers.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The smallest page size, in rows. A cloud that is too slow for this is not helped by smaller pages.
const SMALLEST: u32 = 50;

/// How often one list is retried with smaller pages after a time-out. A server that hangs must not delay a poll by one time-out
/// for each page size.
pub(crate) const SHRINKS: u32 = 2;

/// The number of pages that must arrive in time before a larger size is tried again. Without it one slow hour would
/// cost more calls forever.
const PROVEN: u32 = 500;

/// The page size of one kind of list, kept from one list to the next: an old Octavia takes many seconds for a thousand
/// pools.
#[derive(Debug)]
pub(crate) struct PageSize {
    largest: u32,
    now: AtomicU32,
    in_time: AtomicU32,
}

impl PageSize {
    pub(crate) fn new(largest: u32) -> Self {
        let largest = largest.clamp(1, 1000);
        Self { largest, now: AtomicU32::new(largest), in_time: AtomicU32::new(0) }
    }

    pub(crate) fn get(&self) -> u32 {
        self.now.load(Relaxed)
    }

    /// Called when a page of `size` rows timed out, or was too large. Returns false when there is no smaller size to try.
    pub(crate) fn too_slow(&self, size: u32) -> bool {
        let smaller = (size / 2).max(SMALLEST);
        if smaller >= size {
            return false;
        }
        self.now.fetch_min(smaller, Relaxed);
        self.in_time.store(0, Relaxed);
        true
    }

    /// Called when a page arrived in time.
    pub(crate) fn in_time(&self) {
        let now = self.get();
        if now < self.largest && self.in_time.fetch_add(1, Relaxed) + 1 >= PROVEN {
            self.in_time.store(0, Relaxed);
            self.now.store((now * 2).min(self.largest), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_to_the_floor() {
        let size = PageSize::new(1000);
        let mut seen = Vec::new();
        while size.too_slow(size.get()) {
            seen.push(size.get());
        }
        assert_eq!(seen, [500, 250, 125, 62, 50]);
    }

    #[test]
    fn lists_side_by_side_halve_once() {
        let size = PageSize::new(1000);
        assert!(size.too_slow(1000) && size.too_slow(1000));
        assert_eq!(size.get(), 500);
    }

    #[test]
    fn recovers_when_it_has_proven_itself() {
        let size = PageSize::new(1000);
        assert!(size.too_slow(1000) && size.too_slow(500));
        for _ in 1..PROVEN {
            size.in_time();
        }
        assert_eq!(size.get(), 250);
        size.in_time();
        assert_eq!(size.get(), 500);
    }

    #[test]
    fn never_above_what_was_asked_for() {
        assert_eq!((PageSize::new(5000).get(), PageSize::new(20).get()), (1000, 20));
        assert!(!PageSize::new(20).too_slow(20));
    }
}
