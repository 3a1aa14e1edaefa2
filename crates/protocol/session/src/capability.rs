//! What an end knows beyond the protocol's version.
//!
//! Each end names its capabilities, the agent in Hello and the writer in Welcome, and ignores names that it does not know. What
//! only newer ends know is used where both name it, so that either end may be a release older. docs/protocol.md lists them.

use std::borrow::Cow;

/// What an end names. Its own names cost nothing to send.
pub type Capabilities = Cow<'static, [Cow<'static, str>]>;

/// Chunks have the age of their changes, and ages the delay before the change was reported.
pub const CHANGE_AGE: &str = "change-age";
/// Frames have the trace of their oldest change.
pub const TRACE: &str = "trace";
