//! What an end knows beyond the protocol's version.
//!
//! Each end names its capabilities, the agent in Hello and the writer in Welcome, and ignores names that it does not know. What
//! only newer ends know is used where both name it, so that either end may be a release older. docs/protocol.md lists them.

/// Chunks have the age of their changes, and ages the delay before the change was reported.
pub const CHANGE_AGE: &str = "change-age";
/// Frames have the trace of their oldest change.
pub const TRACE: &str = "trace";

/// Returns an end's capabilities as it sends them.
pub(crate) fn named(capabilities: &[&str]) -> Vec<String> {
    capabilities.iter().map(|name| (*name).to_owned()).collect()
}
