//! Admission by certificate: which tenant a peer speaks for, by the subject alternative names of its certificate, and a
//! configuration file that is read again when it changes.

mod admin;
mod followed_file;
mod identity;

pub use admin::{AdminPrincipal, InvalidAdmin};
pub use followed_file::{FileFormat, FollowedFile, read_when_stable};
pub use identity::{Identity, Tenant, Visible, identify};
