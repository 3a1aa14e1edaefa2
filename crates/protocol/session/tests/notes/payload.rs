//! Notes: a header with numbered lines. A deleted note stays until the other end reports that nothing of it is left.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use gimbal_model::Digest;
use gimbal_session::{
    AgentConfig, AgentEnd, Content, Credit, Entry, EntryChange, Key, Payload, Reason, WriterEnd, WriterLimits,
};

/// The key of a note. The kind is the last field, because keys are ordered by namespace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NoteKey {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub kind: u8,
}

impl fmt::Display for NoteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.namespace, self.kind, self.name)
    }
}

impl Key for NoteKey {
    fn namespace(&self) -> &Arc<str> {
        &self.namespace
    }

    fn first_in(namespace: Arc<str>) -> Self {
        Self { namespace, name: "".into(), kind: 0 }
    }

    fn text_len(&self) -> usize {
        self.namespace.len() + self.name.len() + 8
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Header {
    Present { uid: u64, title: String, sealed: Option<u64> },
    Deleting { uid: u64 },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    pub header: Arc<Header>,
    pub lines: BTreeMap<u32, u32>,
}

/// A change of a line: its new text, or `None` if it was removed.
pub type LineChange = (u32, Option<u32>);

impl Note {
    pub fn present(uid: u64, title: &str, lines: impl IntoIterator<Item = (u32, u32)>) -> Arc<Self> {
        let header = Arc::new(Header::Present { uid, title: title.into(), sealed: None });
        Arc::new(Self { header, lines: lines.into_iter().collect() })
    }

    pub fn sealed(uid: u64, hash: u64) -> Arc<Self> {
        let header = Arc::new(Header::Present { uid, title: String::new(), sealed: Some(hash) });
        Arc::new(Self { header, lines: BTreeMap::new() })
    }

    pub fn deleting(uid: u64) -> Arc<Self> {
        Arc::new(Self { header: Arc::new(Header::Deleting { uid }), lines: BTreeMap::new() })
    }

    pub fn uid(&self) -> u64 {
        match *self.header {
            Header::Present { uid, .. } | Header::Deleting { uid } => uid,
        }
    }
}

fn hashed(text: &impl fmt::Debug) -> Digest {
    let fnv = |start: u64| {
        let bytes = format!("{text:?}").into_bytes();
        bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
    };
    let both = (u128::from(fnv(0xcbf2_9ce4_8422_2325)) << 64) | u128::from(fnv(0x9e37_79b9_7f4a_7c15));
    Digest::from_bytes(both.to_be_bytes())
}

fn line_digest(key: &NoteKey, line: (u32, u32)) -> Digest {
    hashed(&("line", key, line))
}

impl Entry<Notes> for Note {
    type Changes<'a> = ();

    fn new(header: Arc<Header>, parts: Vec<(u32, u32)>) -> Self {
        Self { header, lines: parts.into_iter().collect() }
    }

    fn header(&self) -> Arc<Header> {
        self.header.clone()
    }

    fn parts(&self) -> impl Iterator<Item = (u32, u32)> {
        self.lines.iter().map(|(number, text)| (*number, *text))
    }

    fn part_count(&self) -> usize {
        self.lines.len()
    }

    fn digest(&self, key: &NoteKey) -> Digest {
        self.parts().fold(hashed(&("header", key, &self.header)), |sum, line| sum + line_digest(key, line))
    }

    fn between(old: Option<&Self>, new: Option<&Self>) -> Option<EntryChange<Notes>> {
        match (old, new) {
            (None, None) => None,
            (Some(_), None) => Some(EntryChange::Remove),
            (old, Some(new)) if old == Some(new) => None,
            (Some(old), Some(new)) if !new.is_deleting() => {
                let header = (old.header != new.header).then(|| new.header.clone());
                let set = new.parts().filter(|(number, text)| old.lines.get(number) != Some(text));
                let gone = old.lines.keys().filter(|number| !new.lines.contains_key(number));
                let set = set.map(|(number, text)| (number, Some(text)));
                Some(EntryChange::Update { header, parts: set.chain(gone.map(|number| (*number, None))).collect() })
            }
            // The lines of a note that is being deleted do not matter.
            (_, Some(new)) => Some(EntryChange::Replace(new.clone())),
        }
    }

    fn update(&mut self, key: &NoteKey, digest: &mut Digest, header: Option<Arc<Header>>, parts: Vec<LineChange>) {
        self.header = header.unwrap_or_else(|| self.header.clone());
        for (number, text) in parts {
            match text {
                Some(text) => self.lines.insert(number, text),
                None => self.lines.remove(&number),
            };
        }
        *digest = self.digest(key);
    }

    fn is_deleting(&self) -> bool {
        matches!(*self.header, Header::Deleting { .. })
    }

    fn header_len(header: &Header) -> usize {
        match header {
            Header::Present { title, .. } => 24 + title.len(),
            Header::Deleting { .. } => 8,
        }
    }

    fn part_len(_: Option<&(u32, u32)>, _: &(u32, u32)) -> usize {
        16
    }

    fn change_len((): &mut (), _: &LineChange) -> usize {
        16
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Refusal {
    Invalid,
    TooLarge,
}

impl Reason for Refusal {
    const INVALID: Self = Self::Invalid;
    const TOO_LARGE: Self = Self::TooLarge;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    Made,
    Gone,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    pub uid: u64,
    pub phase: Phase,
    /// Number of lines that the object was made from, so that a change is reported again.
    pub lines: usize,
}

/// The content with a given hash. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a secret")
    }
}

impl Content for Secret {
    type Hash = u64;

    fn hash(&self) -> u64 {
        self.0.iter().fold(7, |hash, byte| hash * 31 + u64::from(*byte))
    }

    fn wire_len(&self) -> usize {
        self.0.len() + 16
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Notes;

impl Payload for Notes {
    type Key = NoteKey;
    type Entry = Note;
    type Kept = Arc<Note>;
    type Header = Header;
    type Part = (u32, u32);
    type PartChange = LineChange;
    type Reason = Refusal;
    type Report = Report;
    type StoredReport = Arc<Report>;
    type Facts = u64;
    type Hash = u64;
    type Content = Secret;

    const AN_ENTRY: &'static str = "a note";
    const ENTRIES: &'static str = "notes";
    const PARTS: &'static str = "lines";
    const INDIVISIBLE: &'static str = "a title";
    const KEEPS_TOO_LARGE: bool = true;
    const SENDS_UNKNOWN: bool = true;

    fn report_len(report: &Report) -> usize {
        32 + report.lines
    }

    fn facts_len(facts: &u64) -> usize {
        usize::try_from(*facts).unwrap_or(usize::MAX)
    }
}

pub fn key(namespace: &str, name: &str) -> NoteKey {
    NoteKey { namespace: namespace.into(), name: name.into(), kind: 1 }
}

pub fn new_agent() -> AgentEnd<Notes> {
    AgentEnd::new(AgentConfig { backend: "b".into(), instance: "i".into(), version: "v".into() })
}

pub fn new_writer() -> WriterEnd<Notes> {
    let credit = Credit { changes: 4, bytes: 2000 };
    WriterEnd::new(WriterLimits { credit, heartbeat_timeout: std::time::Duration::from_secs(60) })
}

#[test]
fn a_secret_does_not_show_itself() {
    let message = gimbal_session::AgentMessage::<Notes>::Content { hash: 1, content: Some(Secret(b"word".into())) };
    assert_eq!(format!("{message:?}"), "Content { hash: 1, content: Some(a secret) }");
}
