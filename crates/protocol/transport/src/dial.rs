//! Dials a server. Each failure has its own error, and an address that does not answer does not delay the next one.

mod error;
mod heard;
mod race;
mod target;

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use rustls_pki_types::CertificateDer;
use tokio::time::{Instant, timeout, timeout_at};
use tonic::transport::Channel;

pub use self::error::DialError;
pub(crate) use self::error::{certificate_problem, is_about_certificates};
use self::race::race;
pub use self::target::{DialTarget, Way};
use crate::ClientTls;

/// After this time without an answer, the next address is tried concurrently, and the first that connects is used. The
/// slow attempt continues.
pub const STEP: Duration = Duration::from_secs(1);

/// How long an open connection may be silent before it counts as dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// 15 s, for a server without another address.
    Long,
    /// 2 s, where another address may answer. The server is pinged every half second.
    Short,
}

/// The result of [`connect`].
#[derive(Debug)]
pub struct Connected {
    /// The connection, with the index of its address in the list that was passed.
    pub channel: Option<(usize, Channel)>,
    /// The addresses that failed, with their errors, in the order in which they failed.
    pub failed: Vec<(usize, DialError)>,
    /// Number of addresses that were tried, from the start of the list. One that neither connected nor failed was too
    /// slow.
    pub tried: usize,
}

/// Resolves the names of all targets concurrently, and returns their addresses in order of the targets. A name that
/// takes a second longer than the first one is left out.
///
/// # Errors
/// Returns the errors when no target has an address within `limit`.
pub async fn ways(targets: &[DialTarget], limit: Duration) -> Result<Vec<Way>, Vec<DialError>> {
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

/// Connects to the first of these addresses that answers: TCP, TLS and the server's first bytes. Each attempt is
/// limited to `limit`. If there are several addresses, TCP is limited to a [`STEP`], so that one that drops packets
/// does not delay the result after the others refused. The next attempt starts when one fails, or concurrently after a
/// [`STEP`]. The channel is a single connection: when it breaks, calls fail and the caller dials again.
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

/// Connects to `http://host:port` (loopback only) or `https://host:port`, whose certificate must be valid for that
/// host, at any of its addresses. `timeout` covers name resolution, TCP, TLS and the server's first bytes.
///
/// # Errors
/// Returns a [`DialError`]; if several addresses failed, the error of the last one.
pub async fn dial(url: &str, tls: Option<ClientTls>, timeout: Duration) -> Result<Channel, DialError> {
    let target = DialTarget::parse(url, tls.is_some())?;
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

/// Returns the certificates that the server shows, its own first, once they are verified as [`dial`] does it, and it has accepted
/// ours. `limit` covers everything.
///
/// # Errors
/// Returns a [`DialError`]; if several addresses failed, the error of the last one.
pub async fn certificate_chain(
    url: &str,
    tls: &ClientTls,
    limit: Duration,
) -> Result<Vec<CertificateDer<'static>>, DialError> {
    let target = DialTarget::parse(url, true)?;
    let shown = async {
        let ways = target.ways().await?;
        let reach = if ways.len() > 1 { STEP.min(limit) } else { limit };
        let mut failed = target.timeout(limit);
        for way in ways {
            match way.certificate_chain(tls, reach).await {
                Ok(chain) => return Ok(chain),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    };
    timeout(limit, shown).await.map_err(|_| target.timeout(limit))?
}
