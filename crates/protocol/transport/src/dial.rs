//! A connection to a server, made by ourselves so that each way to fail has its own words, and so that an address that
//! does not answer keeps nobody from the next one.

mod error;
mod heard;
mod race;
mod target;

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, timeout, timeout_at};
use tonic::transport::Channel;

pub use self::error::DialError;
pub(crate) use self::error::is_about_certificates;
use self::race::race;
pub use self::target::{Target, Way};
use crate::ClientTls;

/// An address that has not answered for so long gets company: the next one is tried beside it, and whoever comes first
/// is taken. A server that is merely slow is not given up by that.
pub const STEP: Duration = Duration::from_secs(1);

/// How long a silent server is believed to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// 15 s: there is nowhere else to go.
    Long,
    /// 2 s: another address may answer. The server is asked for a sign of life each half second.
    Short,
}

/// What came of [`connect`].
#[derive(Debug)]
pub struct Connected {
    /// The first way that led to a server, by its place among those given.
    pub channel: Option<(usize, Channel)>,
    /// Those that led nowhere, and why, in the order in which that was known.
    pub failed: Vec<(usize, DialError)>,
    /// How many were tried: the first ones. What has neither won nor failed was too slow.
    pub tried: usize,
}

/// The addresses of all targets, in order. Names are looked up side by side, and one that takes a second longer than
/// another is left out.
///
/// # Errors
/// When none has an address within `limit`.
pub async fn ways(targets: &[Target], limit: Duration) -> Result<Vec<Way>, Vec<DialError>> {
    let mut lookups: FuturesUnordered<_> =
        targets.iter().enumerate().map(async |(index, target)| (index, target.ways().await)).collect();
    let mut deadline = Instant::now() + limit;
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    while let Ok(Some((index, looked_up))) = timeout_at(deadline, lookups.next()).await {
        match looked_up {
            Ok(ways) => {
                deadline = deadline.min(Instant::now() + STEP);
                found.push((index, ways));
            }
            Err(error) => failed.push(error),
        }
    }
    if found.is_empty() {
        if failed.is_empty() {
            failed.extend(targets.first().map(|target| target.timeout(limit)));
        }
        return Err(failed);
    }
    found.sort_by_key(|(index, _)| *index);
    Ok(found.into_iter().flat_map(|(_, ways)| ways).collect())
}

/// Connects by the first of these ways that leads to a server: TCP, TLS and the server's first words. Each is given
/// `limit`, but where there are several TCP has to be there within a [`STEP`]: who was refused by the others is not to wait for one
/// that drops what it is sent. The next is tried as soon as one has failed, or beside it after a [`STEP`]. The channel is this one connection: when
/// it breaks, calls fail, and one dials again.
pub async fn connect(ways: &[Way], tls: Option<&ClientTls>, patience: Patience, limit: Duration) -> Connected {
    let reach = if ways.len() > 1 { STEP.min(limit) } else { limit };
    let raced = race(ways.len(), STEP, |index| {
        let way = &ways[index];
        async move {
            let connected = timeout(limit, Box::pin(way.connect(tls, patience, reach))).await;
            connected.unwrap_or_else(|_| Err(way.target.timeout(limit)))
        }
    });
    let raced = raced.await;
    Connected { channel: raced.won, failed: raced.failed, tried: raced.begun }
}

/// Connects to `http://host:port` (loopback only) or `https://host:port`, whose certificate must be for that host, by any of
/// its addresses. Name resolution, TCP, TLS and the server's first words count towards `timeout`.
///
/// # Errors
/// See [`DialError`]; where several addresses failed, the last to do so.
pub async fn dial(url: &str, tls: Option<ClientTls>, timeout: Duration) -> Result<Channel, DialError> {
    let target = Target::parse(url, tls.is_some())?;
    let limit = || target.timeout(timeout);
    let connected = async {
        let ways = target.ways().await?;
        let mut connected = connect(&ways, tls.as_ref(), Patience::Long, timeout).await;
        match connected.channel {
            Some((_, channel)) => Ok(channel),
            None => Err(connected.failed.pop().map_or_else(limit, |(_, error)| error)),
        }
    };
    tokio::time::timeout(timeout, connected).await.map_err(|_| limit())?
}
