//! A compromised agent: it has the certificate of one backend, speaks the protocol as it likes, and tries each thing
//! that docs/design.md#rule-2 forbids. It gets an answer with a reason; other backends' objects stay unchanged, by UID
//! and version. Single malformed frames are tested in `bad_input`.

mod content;
mod doors;
mod frames;
mod siege;
