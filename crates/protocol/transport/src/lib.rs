//! The gRPC edge: who is at the other end of a connection, and messages to and from it.
//!
//! The server side terminates TLS itself, so that handshakes are bounded in number and time and a refused one is told
//! with its reason, and so that a certificate that is accepted no more ends its connection; [`serve`] takes the services as traits over parsed messages. The client side is [`dial`] and
//! [`open`]. Nothing here decides anything about Services.

mod accept;
mod admin;
mod certificate;
mod compress;
mod connection;
mod credentials;
mod denied;
mod dial;
mod discovery;
mod error;
mod health;
mod inspection;
mod open;
mod page;
mod peer;
mod quiet;
mod refusal;
mod reload;
mod serve;
mod standing;
mod tls;
mod trust;
mod turns;
mod unread;

use std::net::SocketAddr;
use std::time::Duration;

pub use admin::Admin;
pub use certificate::Certificate;
pub use credentials::{ClientTls, Credentials, Reloaded, Reloader, client_tls};
pub use denied::{Denied, DeniedCertificate, InvalidDenial};
pub use dial::{Connected, DialError, Patience, STEP, Target, Way, connect, dial, ways};
pub use discovery::{AgentMessages, Discovery};
pub use error::LinkError;
pub use gimbal_wire::{WirePayload, pb};
pub use inspection::{Inspection, Viewer};
pub use open::{AgentSender, WriterMessages, open};
pub use page::{Part, Place};
pub use peer::{Peer, PeerCertificate};
pub use quiet::Quiet;
pub use refusal::{Problem, Refusal};
pub use reload::{Follow, Look, Step};
pub use serve::{OnRefusal, ServeOptions, Services, Serving, serve};
pub use tls::{TlsError, TlsFiles};
pub use tonic::{Code, Status, transport::Channel};

/// A silent connection is pinged after this time, by both ends.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// And is dead when the ping is not answered within this one: noticed after 15 s in all.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes in flight for one stream.
const STREAM_WINDOW: u32 = 1 << 20;
/// Bytes in flight for a connection; more than one stream's, so that a stalled stream does not stop the others.
const CONNECTION_WINDOW: u32 = 4 << 20;
/// Largest message taken: a frame, and what estimates of its size may be off by.
const MAX_MESSAGE: usize = gimbal_session::MAX_FRAME + (64 << 10);

/// Whether a listener on this address, or a connection to it, may go without TLS: only where nobody else can listen.
#[must_use]
pub fn plaintext_allowed(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}
