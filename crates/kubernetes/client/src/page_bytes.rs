//! Limits pages by bytes: chooses the number of objects so that all pages take about the same memory. Pure.

/// The target size of a page. A full `EndpointSlice` takes about 30 kB, so the usual page of 500 objects would take 15 MB,
/// and as much again once parsed.
pub(crate) const BYTES: usize = 512 << 10;
/// The longest object that is read, as JSON: ten times the limit of etcd for one object.
pub(crate) const LONGEST_OBJECT: usize = 16 << 20;
/// The largest page that is read. One object always fits, and so do 40 at the limit of etcd, which is 1.5 MiB; fewer are asked
/// for where they do not fit. A server that sends without end costs this much memory and no more.
pub(crate) const MOST_BYTES: usize = 4 * LONGEST_OBJECT;
/// Number of objects in the first page, when their size is unknown.
const FIRST: u32 = 50;
/// Largest number of objects in a page, as in other clients of Kubernetes.
const MOST: u32 = 500;
/// Limits the growth from one page to the next, since a page of small objects may be an exception.
const GROWTH: u32 = 4;
/// Divides the number of objects after a page that was too large.
const SHRINKING: u32 = 8;

/// The number of objects per page of one list. Kept from one list to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageBytes(u32);

impl PageBytes {
    pub(crate) const fn new() -> Self {
        Self(FIRST)
    }

    /// Returns the limit of the next page.
    pub(crate) fn limit(self) -> u32 {
        self.0
    }

    /// Adjusts the limit after a page with this number of objects and bytes.
    pub(crate) fn learn(&mut self, objects: usize, bytes: usize) {
        if objects > 0 {
            let fit = u32::try_from(BYTES * objects / bytes.max(1)).unwrap_or(MOST);
            self.0 = fit.clamp(1, self.0.saturating_mul(GROWTH).min(MOST));
        }
    }

    /// Reduces the limit after a page that was too large. Returns whether a smaller page can be asked for.
    pub(crate) fn shrink(&mut self) -> bool {
        let before = self.0;
        self.0 = (before / SHRINKING).max(1);
        self.0 < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_large_pages_shrink_to_one_object() {
        let mut size = PageBytes(MOST);
        let mut limits = Vec::new();
        while size.shrink() {
            limits.push(size.limit());
        }
        assert_eq!(limits, [62, 7, 1]);
    }

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
            let mut size = PageBytes::new();
            let mut seen = Vec::new();
            for (objects, bytes) in pages {
                size.learn(*objects, *bytes);
                seen.push(size.limit());
            }
            assert_eq!(seen, limits, "{name}");
        }
    }
}
