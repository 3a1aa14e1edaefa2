//! A compromised agent: it has the certificate of one backend, speaks the protocol as it likes, and tries each thing that
//! docs/design.md#rule-2 forbids. What it gets is an answer with a reason; what others have stays as it is, by UID and version.
//! Single frames, byte by byte, are `bad_input`'s.

mod content;
mod doors;
mod frames;
mod siege;
