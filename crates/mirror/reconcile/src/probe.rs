//! Counts targets and backends that are looked at, in tests only: one of them says that a change looks at no more
//! where there is more.

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

/// How many were looked at in this thread since the last call.
#[cfg(test)]
pub(crate) fn take() -> usize {
    LOOKED.take()
}
