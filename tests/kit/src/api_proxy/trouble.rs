//! How calls of each kind fail while an API server is in trouble.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::Request;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use tokio::sync::watch;

/// Kinds of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Calls {
    /// Every call about a Lease.
    Leases,
    /// Watches that are opened from now on.
    Watches,
    /// Other reads.
    Reads,
    /// Other writes.
    Writes,
}

impl Calls {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Leases, Self::Watches, Self::Reads, Self::Writes];

    pub(super) fn of(request: &Request) -> Self {
        let watches = request.uri().query().is_some_and(|query| query.contains("watch="));
        match *request.method() {
            _ if request.uri().path().contains("/leases") => Self::Leases,
            Method::GET if watches => Self::Watches,
            Method::GET => Self::Reads,
            _ => Self::Writes,
        }
    }
}

/// How a call in trouble is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// This status, with a Retry-After in seconds, if any.
    Answer(u16, Option<u64>),
    /// Calls are passed on when the trouble ends, and not answered before.
    Silence,
    /// Calls are passed on after this delay.
    Late(Duration),
}

type There = BTreeMap<Calls, Trouble>;

/// The current trouble, by kind of call.
#[derive(Default)]
pub(super) struct Troubles(watch::Sender<There>);

impl Troubles {
    pub(super) fn begin(&self, calls: &[Calls], trouble: Trouble) {
        self.0.send_modify(|there| there.extend(calls.iter().map(|calls| (*calls, trouble))));
    }

    pub(super) fn end(&self) {
        self.0.send_modify(BTreeMap::clear);
    }

    /// Waits as the current trouble demands. Returns the answer for a call of this kind, or `None` if it is to be
    /// passed on.
    pub(super) async fn meet(&self, calls: Calls) -> Option<Response> {
        let trouble = self.0.borrow().get(&calls).copied();
        match trouble? {
            Trouble::Answer(code, retry_after) => {
                let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                let retry_after = retry_after.map(|seconds| [(header::RETRY_AFTER, seconds.to_string())]);
                Some((code, retry_after, "the API server is in trouble").into_response())
            }
            Trouble::Silence => {
                let over = |there: &There| there.get(&calls) != Some(&Trouble::Silence);
                // Fails only without a sender, and `self` is one.
                self.0.subscribe().wait_for(over).await.ok();
                None
            }
            Trouble::Late(time) => {
                tokio::time::sleep(time).await;
                None
            }
        }
    }
}
