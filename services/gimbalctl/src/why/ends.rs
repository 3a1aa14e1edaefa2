//! What both ends answered, side by side, and where they differ first. No I/O.

use std::net::IpAddr;

use gimbal_wire::pb;

use crate::diff::{DiffPlace, DifferenceKind, Known, knows, service_id, source_with_writer, writer_with_cluster};

/// What one end answered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct End {
    /// The backend, as this end knows it.
    pub backend: Option<pb::Backend>,
    pub answer: pb::ExplainResponse,
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BothEnds {
    /// The address that was asked about.
    pub address: Option<IpAddr>,
    pub writer: Option<End>,
    /// Whether the writer leads. One that does not knows only what is published.
    pub leading: bool,
    pub discoverer: Option<End>,
}

/// The first place on the way where something else is than before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstDifference {
    pub place: DiffPlace,
    pub kind: DifferenceKind,
    /// What differs, and why as far as that is known.
    pub what: String,
}

impl End {
    /// Of all backends that an end knows, the one that its answer is about is kept: the one of its Service, or else `asked`.
    pub fn of(backends: Vec<pb::Backend>, asked: &str, answer: pb::ExplainResponse) -> Self {
        let about = answer.service.as_ref().map_or(asked, |service| service.backend.as_str());
        let backend = backends.into_iter().find(|one| one.name == about);
        Self { backend, answer }
    }

    fn known(&self) -> Known {
        self.answer.service.iter().map(|status| (service_id(status), status.clone())).collect()
    }

    /// Returns whether it knows all of a namespace now: what it does not name elsewhere may be there all the same.
    fn knows(&self, namespace: &str) -> bool {
        self.backend.as_ref().is_some_and(|one| knows(one, namespace))
    }

    /// Returns whether it knows all of the namespace of the Service that another end answered about.
    fn knows_place_of(&self, other: &Self) -> bool {
        let source = other.answer.service.as_ref().and_then(|service| service.source.as_ref());
        source.is_some_and(|source| self.knows(&source.namespace))
    }

    /// Returns whether its endpoint with the address is ready; `None`: it has none.
    fn ready(&self) -> Option<bool> {
        Some(self.answer.address.as_ref()?.endpoint.as_ref()?.ready)
    }

    /// Returns the last sentence about the address.
    fn cause(&self) -> String {
        self.answer.address.as_ref().and_then(|address| address.reasons.last().cloned()).unwrap_or_default()
    }

    /// Returns whether an object that this end sees has an endpoint with the address, and whether it is ready there.
    fn ready_in_objects(&self) -> Option<bool> {
        let objects = self.answer.address.iter().flat_map(|address| &address.objects);
        objects.map(|object| object.conditions.as_ref().is_some_and(|conditions| conditions.ready)).max()
    }
}

impl BothEnds {
    /// Returns whether neither end knows of the Service.
    pub fn is_nowhere(&self) -> bool {
        self.ends().all(|end| end.answer.service.is_none())
    }

    /// Returns whether an address was asked about that neither end has.
    pub fn lacks_address(&self) -> bool {
        let has = |end: &End| end.ready().is_some() || end.ready_in_objects().is_some();
        self.address.is_some() && !self.ends().any(has)
    }

    fn ends(&self) -> impl Iterator<Item = &End> {
        self.discoverer.iter().chain(&self.writer)
    }

    /// Returns whether the writer can be compared with anything.
    fn compared(&self) -> Option<&End> {
        self.writer.as_ref().filter(|_| self.leading)
    }

    /// Returns the first difference from the source on.
    pub fn first_difference(&self) -> Option<FirstDifference> {
        let writer = self.compared()?;
        match self.address {
            Some(_) => self.first_of_address(writer),
            None => self.first_of_service(writer),
        }
    }

    fn first_of_service(&self, writer: &End) -> Option<FirstDifference> {
        let held = writer.known();
        let mut found = Vec::new();
        if let Some(discoverer) = &self.discoverer {
            found = source_with_writer(&discoverer.known(), &held, |namespace| discoverer.knows(namespace));
        }
        found.extend(writer_with_cluster(&held));
        let first = found.into_iter().next()?;
        Some(FirstDifference { place: first.place, kind: first.kind, what: first.what })
    }

    fn first_of_address(&self, writer: &End) -> Option<FirstDifference> {
        let source = self.discoverer.as_ref().filter(|end| end.answer.address.is_some());
        // What a server of an older version says nothing of cannot be compared.
        writer.answer.address.as_ref()?;
        let on_its_way = |end: &End| end.answer.service.as_ref().map(|service| service.message.clone());
        let at_writer = source.and_then(|source| {
            let kind = difference(source.ready(), writer.ready())?;
            if kind == DifferenceKind::Extra && !source.knows_place_of(writer) {
                return None;
            }
            let said = on_its_way(source).filter(|message| !message.is_empty());
            Some(FirstDifference { place: DiffPlace::Writer, kind, what: said.unwrap_or_else(|| writer.cause()) })
        });
        at_writer.or_else(|| {
            let kind = difference(writer.ready(), writer.ready_in_objects())?;
            Some(FirstDifference { place: DiffPlace::Cluster, kind, what: writer.cause() })
        })
    }

    /// Returns what there is to conclude, in a sentence.
    pub fn conclusion(&self) -> String {
        if let Some(FirstDifference { place, kind, what }) = self.first_difference() {
            let what = if what.is_empty() { what } else { format!(": {what}") };
            return format!("first difference: {} at the {}{what}", kind.name(), place.name());
        }
        match (&self.writer, &self.discoverer) {
            (None, _) => "the writer was not asked".to_owned(),
            (Some(_), _) if !self.leading => "nothing is compared: this writer does not lead".to_owned(),
            (Some(_), None) => "the writer and the Gimbal cluster agree".to_owned(),
            (Some(_), Some(_)) => "the source, the writer and the Gimbal cluster agree".to_owned(),
        }
    }

    /// Returns that the stream is of another agent than the one that was asked, if it is.
    pub fn other_agent(&self) -> Option<String> {
        let [asked, streams] = [self.discoverer.as_ref()?, self.writer.as_ref()?].map(|end| end.backend.as_ref());
        let (asked, streams) = (asked?, streams?);
        let differs = streams.connected && streams.agent_instance != asked.agent_instance;
        differs.then(|| {
            format!(
                "the stream is of another agent: instance {}, and the discoverer that was asked is {}",
                streams.agent_instance, asked.agent_instance
            )
        })
    }
}

/// Returns how an endpoint differs from what is before it on the way.
fn difference(before: Option<bool>, here: Option<bool>) -> Option<DifferenceKind> {
    match (before, here) {
        (Some(_), None) => Some(DifferenceKind::Missing),
        (None, Some(_)) => Some(DifferenceKind::Extra),
        (Some(before), Some(here)) if before != here => Some(DifferenceKind::Different),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
