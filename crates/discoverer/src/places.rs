//! One dial: names to addresses, the first that leads to a writer, and a stream on it.

use std::time::Duration;

use gimbal_transport::{AgentSender, ClientTls, DialError, Patience, Target, Way, WriterMessages};
use tokio::time::timeout;

use crate::backoff::Trouble;

/// Looking up names, connecting and opening the stream, each.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Opening a stream on a connection that just came to be, where another address might do better.
const OPENING: Duration = Duration::from_secs(2);

/// An address of the writer.
pub(crate) type Address = Way;

/// Where the writer is: one process or several, of which one leads.
#[derive(Debug, Clone)]
pub(crate) struct WriterAddress {
    pub(crate) targets: Vec<Target>,
    pub(crate) tls: Option<ClientTls>,
}

/// What came of a dial.
pub(crate) struct Dialled {
    /// The addresses that the writer's names stand for now.
    pub(crate) found: Vec<Address>,
    /// Those that led nowhere, or were slower than others.
    pub(crate) passed_over: Vec<Address>,
    /// There is another address to go to, that is not known to be dead.
    pub(crate) is_one_of_several: bool,
    pub(crate) stream: Result<(Address, AgentSender, WriterMessages), (Trouble, String)>,
}

/// Dials the addresses in this order, and opens a stream on the first connection that comes to be.
pub(crate) async fn open(writer: WriterAddress, order: impl FnOnce(Vec<Address>) -> Vec<Address>) -> Dialled {
    let found = match gimbal_transport::ways(&writer.targets, TIMEOUT).await {
        Ok(found) => order(found),
        Err(errors) => {
            let stream = Err(trouble(errors.iter()));
            return Dialled { found: Vec::new(), passed_over: Vec::new(), is_one_of_several: false, stream };
        }
    };
    let several = are_several(&found);
    let patience = if several { Patience::Short } else { Patience::Long };
    let connected = gimbal_transport::connect(&found, writer.tls.as_ref(), patience, TIMEOUT).await;
    let won = connected.channel.as_ref().map(|(index, _)| *index);
    let mut passed_over: Vec<_> = (0..connected.tried).filter(|index| Some(*index) != won).collect();
    let stream = match connected.channel {
        None => Err(trouble(connected.failed.iter().map(|(_, error)| error))),
        Some((index, channel)) => {
            let limit = if several { OPENING } else { TIMEOUT };
            match timeout(limit, gimbal_transport::open(channel)).await {
                Ok(Ok((sender, messages))) => Ok((found[index].clone(), sender, messages)),
                Ok(Err(error)) => Err((Trouble::Lost, error.to_string())),
                Err(_) => {
                    let late = format!("the writer did not open the stream within {} s", limit.as_secs());
                    Err((Trouble::Lost, late))
                }
            }
        }
    };
    if stream.is_err() {
        passed_over.extend(won);
    }
    let passed_over = passed_over.into_iter().map(|index| found[index].clone()).collect();
    Dialled { found, passed_over, is_one_of_several: several, stream }
}

/// Whether a dead one leaves another to go to: two names, or two addresses of one family behind one name. `localhost` with its
/// two families is one place.
fn are_several(ways: &[Way]) -> bool {
    ways.iter()
        .enumerate()
        .any(|(index, way)| ways[index + 1..].iter().any(|other| other.is_beside(way) || !other.has_name_of(way)))
}

/// Why a dial failed, each reason once. It is a refusal where one is: whoever answered decides, and not who is away.
fn trouble<'a>(errors: impl Iterator<Item = &'a DialError> + Clone) -> (Trouble, String) {
    let refused = errors.clone().any(DialError::is_refusal);
    let mut reasons: Vec<String> = Vec::new();
    for error in errors {
        let reason = error.to_string();
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    (if refused { Trouble::Refused } else { Trouble::Lost }, reasons.join("; "))
}
