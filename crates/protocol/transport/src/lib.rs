//! The gRPC layer: authenticates connections, and carries messages over them.
//!
//! The server terminates TLS itself. So it limits the number and duration of handshakes, logs the reason of each
//! refused one, and ends a connection whose certificate is no longer accepted. [`serve`] takes the services of
//! discovery as traits over parsed messages; [`serve_services`] takes any, with the streams of any payload, and does all
//! the rest in the same way. The client side is [`dial`] and [`open`]. Nothing in this crate decides anything about
//! entries.

mod accept;
mod admin;
mod caller;
mod certificate;
mod certificate_state;
mod compress;
mod connection;
mod credentials;
mod denied;
mod dial;
mod discovery;
mod error;
mod gate;
mod health;
mod inspection;
mod open;
mod page;
mod parked;
mod passing;
mod peer;
mod quiet;
mod refusal;
mod reload;
mod rights;
mod serve;
mod services;
mod sync;
mod tls;
mod trust;
mod turns;
mod unread;

use std::net::SocketAddr;
use std::time::Duration;

pub use admin::Admin;
pub use caller::caller;
pub use certificate::Certificate;
pub use credentials::{ClientTls, Reloaded, Reloader, TlsCredentials, client_tls, listener_tls};
pub use denied::{Denied, DeniedCertificate, InvalidDenial};
pub use dial::{Connected, DialError, DialTarget, Patience, STEP, Way, certificate_chain, connect, dial, ways};
pub use discovery::{AgentMessages, Discovery};
pub use error::LinkError;
pub use gate::{AdminGate, CallSlot, InspectionGate, WatchSlot};
pub use gimbal_wire::{WirePayload, pb};
pub use inspection::{Inspection, Viewer};
pub use open::{AgentSender, WriterMessages, open};
pub use page::{PageFiller, Part, Place};
pub use passing::{EndKind, Passing, StreamEnd, goodbye, hello, say_goodbye};
pub use peer::{Peer, PeerCertificate};
pub use quiet::Quiet;
pub use refusal::{Problem, Refusal};
pub use reload::{Follow, Look, ReloadStep};
pub use rights::{RightsReview, rights};
pub use serve::{OnRefusal, ServeOptions, ServedServices, Serving, serve, serve_services};
pub use services::{Availability, MAX_QUESTION, ServiceBuilder};
pub use tls::{TlsError, TlsFiles, client_chain};
pub use tonic::{Code, Status, transport::Channel};

/// Idle time after which either end pings the connection.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// Time limit of the answer to a ping. A dead connection is noticed after 15 s in all.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// HTTP/2 flow-control window of a stream, in bytes.
const STREAM_WINDOW: u32 = 1 << 20;
/// HTTP/2 flow-control window of a connection, in bytes. It is larger than a stream's, so that a stalled stream does
/// not stop the others.
const CONNECTION_WINDOW: u32 = 4 << 20;
/// Largest message that is accepted, in bytes: a frame, and a margin because its size is estimated.
const MAX_MESSAGE: usize = gimbal_session::MAX_FRAME + (64 << 10);

/// Returns the time of this machine's clock, in milliseconds since 1970, as the protocol carries it.
#[must_use]
pub fn clock_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// Returns whether a listener on this address, or a connection to it, may be plaintext: only on loopback, where other
/// machines cannot read it.
#[must_use]
pub fn plaintext_allowed(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}
