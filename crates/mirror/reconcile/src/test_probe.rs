//! Counts the targets and backends that are looked at, in tests only: `cost_tests.rs` checks that a change looks at no more
//! of them where more exist.

#[cfg(not(test))]
pub(crate) const fn looked() {}

#[cfg(test)]
thread_local! {
    static LOOKED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
pub(crate) fn looked() {
    LOOKED.set(LOOKED.get() + 1);
}

/// Returns how many were looked at in this thread since the last call.
#[cfg(test)]
pub(crate) fn take() -> usize {
    LOOKED.take()
}
