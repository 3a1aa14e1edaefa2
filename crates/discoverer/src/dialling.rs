//! One dial: resolves the writer's names, connects to the first address that answers, and opens a stream.

use std::time::Duration;

use gimbal_transport::{AgentSender, ClientTls, DialError, DialTarget, Patience, Way, WirePayload, WriterMessages};
use tokio::time::timeout;

use crate::dial_pauses::DialFailure;

/// Time limit of each step: resolving names, connecting, opening the stream.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit of opening a stream where another address could be tried instead.
const OPENING: Duration = Duration::from_secs(2);

/// The addresses of a writer: one process, or several of which one leads.
#[derive(Debug, Clone)]
pub(crate) struct WriterAddress {
    pub(crate) targets: Vec<DialTarget>,
    pub(crate) tls: Option<ClientTls>,
}

/// The result of a dial.
pub(crate) struct Dialled<P: WirePayload> {
    /// The addresses that the writer's names resolve to.
    pub(crate) found: Vec<Way>,
    /// The ones that failed or were slower than another.
    pub(crate) passed_over: Vec<Way>,
    /// Whether there is another address to try.
    pub(crate) is_one_of_several: bool,
    pub(crate) stream: Result<OpenStream<P>, (DialFailure, String)>,
}

/// Both directions of a new stream, and the address that it was opened on.
type OpenStream<P> = (Way, AgentSender<P>, WriterMessages<P>);

/// Dials the addresses in the given order, and opens a stream on the first connection.
pub(crate) async fn open<P: WirePayload>(
    writer: WriterAddress,
    order: impl FnOnce(Vec<Way>) -> Vec<Way>,
) -> Dialled<P> {
    let found = match gimbal_transport::ways(&writer.targets, TIMEOUT).await {
        Ok(found) => order(found),
        Err(errors) => {
            let stream = Err(failure(errors.iter()));
            return Dialled { found: Vec::new(), passed_over: Vec::new(), is_one_of_several: false, stream };
        }
    };
    let several = are_several(&found);
    let patience = if several { Patience::Short } else { Patience::Long };
    let connected = gimbal_transport::connect(&found, writer.tls.as_ref(), patience, TIMEOUT).await;
    let won = connected.channel.as_ref().map(|(index, _)| *index);
    let mut passed_over: Vec<_> = (0..connected.tried).filter(|index| Some(*index) != won).collect();
    let stream = match connected.channel {
        None => Err(failure(connected.failed.iter().map(|(_, error)| error))),
        Some((index, channel)) => {
            let limit = if several { OPENING } else { TIMEOUT };
            match timeout(limit, gimbal_transport::open(channel)).await {
                Ok(Ok((sender, messages))) => Ok((found[index].clone(), sender, messages)),
                Ok(Err(error)) => Err((DialFailure::Lost, error.to_string())),
                Err(_) => {
                    let late = format!("the writer did not open the stream within {} s", limit.as_secs());
                    Err((DialFailure::Lost, late))
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

/// Returns whether another address is left when one is dead: there are two names, or two addresses of one family behind
/// one name. The two families of `localhost` count as one.
fn are_several(ways: &[Way]) -> bool {
    ways.iter()
        .enumerate()
        .any(|(index, way)| ways[index + 1..].iter().any(|other| other.is_beside(way) || !other.has_name_of(way)))
}

/// Returns why a dial failed, each reason once. It counts as refused if any address refused, for that one answered.
fn failure<'a>(errors: impl Iterator<Item = &'a DialError> + Clone) -> (DialFailure, String) {
    let refused = errors.clone().any(DialError::is_refusal);
    let mut reasons: Vec<String> = Vec::new();
    for error in errors {
        let reason = error.to_string();
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    (if refused { DialFailure::Refused } else { DialFailure::Lost }, reasons.join("; "))
}
