//! How many objects to ask for at once, so that a page takes about as much memory whatever its objects are like. Pure.

/// The bytes that a page aims at. A full `EndpointSlice` takes some 30 kB: 500 of them, as many clients ask for, would be
/// 15 MB, and as much again once read.
pub(crate) const BYTES: usize = 512 << 10;
/// Objects of the first page, of which nothing is known.
const FIRST: u32 = 50;
/// Most objects of a page, however small they are: what other clients of Kubernetes ask for.
const MOST: u32 = 500;
/// A page has at most this many times the objects of the one before, which may have been unlike the rest.
const GROWTH: u32 = 4;

/// The size of one list's pages, kept from one list to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageSize(u32);

impl PageSize {
    pub(crate) const fn new() -> Self {
        Self(FIRST)
    }

    /// Objects to ask for next.
    pub(crate) fn limit(self) -> u32 {
        self.0
    }

    /// Learns from a page of so many objects and bytes.
    pub(crate) fn learn(&mut self, objects: usize, bytes: usize) {
        if objects > 0 {
            let fit = u32::try_from(BYTES * objects / bytes.max(1)).unwrap_or(MOST);
            self.0 = fit.clamp(1, self.0.saturating_mul(GROWTH).min(MOST));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        const MIB: usize = 1 << 20;
        for (name, pages, limits) in [
            ("nothing is learnt from nothing", &[(0, 200)][..], &[50][..]),
            ("full slices", &[(50, 50 * 30_000), (17, 17 * 30_000)], &[17, 17]),
            ("the smallest objects", &[(50, 50 * 200), (200, 200 * 200), (500, 500 * 200)], &[200, 500, 500]),
            ("each larger than a page", &[(50, 50 * 3 * MIB), (1, 3 * MIB)], &[1, 1]),
            ("one large among small ones", &[(50, MIB + 50 * 500), (24, 24 * 500)], &[24, 96]),
            ("small, and then large", &[(50, 50 * 300), (200, 200 * 300), (500, 500 * 30_000)], &[200, 500, 17]),
            ("bytes without end", &[(50, usize::MAX)], &[1]),
        ] {
            let mut size = PageSize::new();
            let mut seen = Vec::new();
            for (objects, bytes) in pages {
                size.learn(*objects, *bytes);
                seen.push(size.limit());
            }
            assert_eq!(seen, limits, "{name}");
        }
    }
}
