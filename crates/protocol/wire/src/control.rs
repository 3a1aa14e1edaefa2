//! The messages that all payloads have in common: Hello and Welcome, heartbeats, credit, goodbyes.

use std::time::Duration;

use gimbal_session::{Credit, Freshness, Goodbye, GoodbyeReason, Hello, Need, Welcome};

use crate::parse::{self, LABEL, Parsed, WireError, invalid, millis, prose};
use crate::pb;
use crate::pb::need::Need as PbNeed;

/// Longest text of a Hello in bytes. The writer keeps these texts as long as the backend.
const IDENTITY: usize = 1024;
/// Largest number of capabilities of a Hello, and of kinds of a heartbeat.
const LISTED: usize = 64;

pub(crate) fn encode_hello(hello: Hello) -> pb::Hello {
    pb::Hello {
        protocol_min: hello.protocol.0,
        protocol_max: hello.protocol.1,
        capabilities: hello.capabilities,
        backend: hello.backend,
        agent_instance: hello.agent_instance,
        source_incarnation: hello.source_incarnation,
        held: hello.held.map(Into::into),
        agent_version: hello.agent_version,
    }
}

pub(crate) fn parse_hello(hello: pb::Hello) -> Parsed<Hello> {
    if hello.capabilities.len() > LISTED {
        return invalid("capabilities", format!("has {} entries, more than {LISTED}", hello.capabilities.len()));
    }
    for capability in &hello.capabilities {
        parse::bounded("capability", capability, LABEL)?;
    }
    parse::bounded("backend", &hello.backend, IDENTITY)?;
    parse::bounded("agent_instance", &hello.agent_instance, IDENTITY)?;
    parse::bounded("source_incarnation", &hello.source_incarnation, IDENTITY)?;
    Ok(Hello {
        protocol: (hello.protocol_min, hello.protocol_max),
        capabilities: hello.capabilities,
        backend: hello.backend,
        agent_instance: hello.agent_instance,
        source_incarnation: hello.source_incarnation,
        held: hello.held.as_ref().map(parse::summary).transpose()?,
        agent_version: prose(hello.agent_version),
    })
}

pub(crate) fn parse_sources(sources: Vec<pb::SourceFreshness>) -> Parsed<Vec<Freshness>> {
    if sources.len() > LISTED {
        return invalid("sources", format!("has {} entries, more than {LISTED}", sources.len()));
    }
    let sources = sources.into_iter().map(|source| {
        parse::bounded("kind", &source.kind, LABEL)?;
        Ok(Freshness { kind: source.kind, age: source.age_ms.map(Duration::from_millis) })
    });
    sources.collect()
}

pub(crate) fn encode_welcome(welcome: Welcome) -> pb::Welcome {
    pb::Welcome {
        protocol: welcome.protocol,
        generation: welcome.generation,
        need: Some(encode_need(welcome.need)),
        credit: Some(encode_credit(welcome.credit)),
        backend: welcome.backend,
        heartbeat_timeout_ms: millis(welcome.heartbeat_timeout, u32::MAX),
    }
}

pub(crate) fn parse_welcome(welcome: pb::Welcome) -> Parsed<Welcome> {
    Ok(Welcome {
        protocol: welcome.protocol,
        generation: welcome.generation,
        need: parse_need(welcome.need)?,
        credit: parse_credit(welcome.credit.ok_or(WireError::Missing("credit"))?),
        backend: welcome.backend,
        heartbeat_timeout: Duration::from_millis(welcome.heartbeat_timeout_ms.into()),
    })
}

pub(crate) fn encode_credit(credit: Credit) -> pb::Credit {
    pb::Credit { changes: credit.changes, bytes: credit.bytes }
}

pub(crate) fn parse_credit(credit: pb::Credit) -> Credit {
    Credit { changes: credit.changes, bytes: credit.bytes }
}

pub(crate) fn encode_need(need: Need) -> pb::Need {
    let need = match need {
        Need::Nothing => PbNeed::Nothing(pb::need::Nothing {}),
        Need::Namespaces(held) => {
            let held = held.into_iter().map(|(namespace, summary)| pb::NamespaceSummary {
                namespace: namespace.to_string(),
                summary: Some(summary.into()),
            });
            PbNeed::Namespaces(pb::need::Namespaces { held: held.collect() })
        }
        Need::All => PbNeed::All(pb::need::All {}),
    };
    pb::Need { need: Some(need) }
}

pub(crate) fn parse_need(need: Option<pb::Need>) -> Parsed<Need> {
    match need.and_then(|need| need.need).ok_or(WireError::Missing("need"))? {
        PbNeed::Nothing(_) => Ok(Need::Nothing),
        PbNeed::All(_) => Ok(Need::All),
        PbNeed::Namespaces(namespaces) => {
            let held = namespaces.held.into_iter().map(|held| {
                parse::name("namespace", &held.namespace)?;
                let summary = held.summary.ok_or(WireError::Missing("summary"))?;
                Ok((held.namespace.into(), parse::summary(&summary)?))
            });
            held.collect::<Parsed<_>>().map(Need::Namespaces)
        }
    }
}

pub(crate) fn encode_goodbye(goodbye: Goodbye) -> pb::Goodbye {
    let reason = match goodbye.reason {
        GoodbyeReason::Shutdown => pb::GoodbyeReason::Shutdown,
        GoodbyeReason::Superseded => pb::GoodbyeReason::Superseded,
        GoodbyeReason::UnknownBackend => pb::GoodbyeReason::UnknownBackend,
        GoodbyeReason::Incarnation => pb::GoodbyeReason::Incarnation,
        GoodbyeReason::Protocol => pb::GoodbyeReason::Protocol,
        GoodbyeReason::ProtocolError => pb::GoodbyeReason::ProtocolError,
        GoodbyeReason::NotLeader => pb::GoodbyeReason::NotLeader,
        GoodbyeReason::Timeout => pb::GoodbyeReason::Timeout,
        GoodbyeReason::Certificate => pb::GoodbyeReason::Certificate,
    };
    pb::Goodbye {
        reason: reason.into(),
        message: goodbye.message,
        // 0 means that the agent uses its own back-off, so "at once" is sent as 1 ms.
        retry_after_ms: goodbye.retry_after.map_or(0, |after| millis(after, u32::MAX).max(1)),
    }
}

pub(crate) fn parse_goodbye(goodbye: pb::Goodbye) -> Parsed<Goodbye> {
    use pb::GoodbyeReason as Pb;
    let reason = match Pb::try_from(goodbye.reason) {
        Ok(Pb::Shutdown) => GoodbyeReason::Shutdown,
        Ok(Pb::Superseded) => GoodbyeReason::Superseded,
        Ok(Pb::UnknownBackend) => GoodbyeReason::UnknownBackend,
        Ok(Pb::Incarnation) => GoodbyeReason::Incarnation,
        Ok(Pb::Protocol) => GoodbyeReason::Protocol,
        Ok(Pb::ProtocolError) => GoodbyeReason::ProtocolError,
        Ok(Pb::NotLeader) => GoodbyeReason::NotLeader,
        Ok(Pb::Timeout) => GoodbyeReason::Timeout,
        Ok(Pb::Certificate) => GoodbyeReason::Certificate,
        Ok(Pb::Unspecified) | Err(_) => {
            return invalid("reason", format!("is {}, which this version does not know", goodbye.reason));
        }
    };
    let retry_after = (goodbye.retry_after_ms > 0).then(|| Duration::from_millis(goodbye.retry_after_ms.into()));
    Ok(Goodbye { reason, message: prose(goodbye.message), retry_after })
}
