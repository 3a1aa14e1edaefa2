//! The framework with a second payload, the notes of `gimbal-session`'s tests, and the session's own writer end: entries
//! go out, also ones that are being deleted; reports, facts and requests for contents come to the source.
#![allow(clippy::unwrap_used, clippy::expect_used)] // A panic is the report.

#[allow(dead_code)] // The world of the session's tests uses the rest.
#[path = "../../../protocol/session/tests/notes/payload.rs"]
mod payload;
#[path = "../running/mod.rs"]
mod running;
mod source;
mod wire;
mod writer;

use std::time::Duration;

use clap::Parser;
use gimbal_discoverer::{AgentArgs, MaySpeak, Program, Setup};
use gimbal_testkit::eventually;
use gimbal_transport::pb;

use crate::payload::{Note, Phase, Refusal, Report, Secret, key};
use crate::running::{PORTS, RunningDiscoverer, SOON};
use crate::source::{Notebook, Step};
use crate::writer::NotesWriter;

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    agent: AgentArgs,
}

/// A discoverer of notes, and the test's end of its source.
struct Running {
    notebook: Notebook,
    discoverer: RunningDiscoverer,
}

impl Running {
    async fn start(writer: &NotesWriter) -> Self {
        let fixed = ["x", "--backend-name", "b", "--writer", &*writer.url];
        let args = Args::try_parse_from(fixed.iter().chain(&PORTS)).unwrap().agent;
        let setup = Setup::new(args, Program { name: "notes-discoverer", version: "1" }).unwrap();
        let (notebook, source) = Notebook::new();
        Self { notebook, discoverer: RunningDiscoverer::start(setup.discover(source).await.unwrap()) }
    }

    async fn stop(self) {
        self.discoverer.stop().await;
    }
}

async fn until(what: &str, holds: impl Fn() -> Result<(), String>) {
    eventually(what, SOON, async || holds()).await.unwrap();
}

fn expect<T: PartialEq + std::fmt::Debug>(found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{found:?} instead of {expected:?}")) }
}

#[tokio::test]
async fn entries_go_out_and_reports_facts_and_requests_come_back() {
    let writer = NotesWriter::start(7).await;
    let discoverer = Running::start(&writer).await;
    let notebook = &discoverer.notebook;
    let secret = Secret(b"word".to_vec());
    let hash = gimbal_session::Content::hash(&secret);
    let (list, sealed) = (key("home", "list"), key("home", "sealed"));
    notebook.step(Step::Secret(secret.clone()));
    notebook.step(Step::Set(list.clone(), Some(Note::present(1, "list", [(1, 1), (2, 2)]))));
    notebook.step(Step::Set(sealed.clone(), Some(Note::sealed(2, hash))));
    until("the writer holds the notes", || expect(writer.held(), vec![list.clone(), sealed.clone()])).await;
    until("the facts came", || expect(notebook.facts(), vec![7])).await;
    until("the content came", || expect(writer.contents(), vec![secret.clone()])).await;

    // A report is acknowledged once the source has handled it, and not before.
    until("the reports came", || expect(notebook.reports(&list), vec![(Phase::Made, 2)])).await;
    assert!(writer.awaits(&list) && writer.awaits(&sealed));
    notebook.step(Step::Handle);
    until("both are acknowledged", || expect((writer.awaits(&list), writer.awaits(&sealed)), (false, false))).await;

    // A change brings a new report, and a note that is being deleted stays until nothing of it is left.
    notebook.step(Step::Set(list.clone(), Some(Note::present(1, "list", [(1, 1)]))));
    until("the next report came", || expect(notebook.reports(&list).last().copied(), Some((Phase::Made, 1)))).await;
    notebook.step(Step::Set(list.clone(), Some(Note::deleting(1))));
    until("nothing is left", || expect(notebook.reports(&list).last().copied(), Some((Phase::Gone, 0)))).await;
    assert_eq!(writer.held(), [list.clone(), sealed.clone()]);
    notebook.step(Step::Handle);
    until("the note is gone", || expect(writer.held(), vec![sealed.clone()])).await;

    writer.set_facts(8);
    until("the new facts came", || expect(notebook.facts(), vec![7, 8])).await;
    discoverer.stop().await;
}

#[tokio::test]
async fn a_report_comes_again_until_it_is_handled() {
    let writer = NotesWriter::start(7).await;
    let discoverer = Running::start(&writer).await;
    let notebook = &discoverer.notebook;
    let list = key("home", "list");
    notebook.step(Step::Set(list.clone(), Some(Note::present(1, "list", [(1, 1)]))));
    until("a report came", || expect(notebook.reports(&list).len(), 1)).await;
    writer.cut();
    until("it came again", || expect(notebook.reports(&list).len(), 2)).await;

    // The source starts over. The reports of before are void: that they are handled acknowledges nothing.
    notebook.step(Step::StartOver);
    until("it came once more", || expect(notebook.reports(&list).len(), 3)).await;
    notebook.step(Step::HandleFirst(2));
    notebook.step(Step::Set(key("home", "more"), Some(Note::present(2, "more", []))));
    until("a later note is held", || expect(writer.held().len(), 2)).await;
    assert!(writer.awaits(&list));
    notebook.step(Step::Handle);
    until("it is acknowledged", || expect(writer.awaits(&list), false)).await;
    discoverer.stop().await;
}

/// It may be about a former state of its entry.
#[tokio::test]
async fn a_report_from_before_the_newest_state_is_early_and_comes_again() {
    let writer = NotesWriter::start(7).await;
    let discoverer = Running::start(&writer).await;
    let notebook = &discoverer.notebook;
    let list = key("home", "list");
    notebook.step(Step::Set(list.clone(), Some(Note::present(1, "list", [(1, 1)]))));
    until("the note was made", || expect(notebook.reports(&list).len(), 1)).await;
    // The writer has not heard that the note is being deleted, when it says that nothing is left.
    notebook.step(Step::Speak(MaySpeak::NotNow));
    notebook.step(Step::Set(list.clone(), Some(Note::deleting(1))));
    let mut inspection = discoverer.discoverer.inspection().await;
    eventually("the deletion is offered", SOON, async || {
        let listed = inspection.list_services(pb::ListServicesRequest::default()).await.unwrap().into_inner();
        expect(listed.services[0].endpoints, 0)
    })
    .await
    .unwrap();
    writer.report(&list, Report { uid: 1, phase: Phase::Gone, lines: 0 });
    until("a report came early", || expect(notebook.last(), Some((Phase::Gone, true)))).await;
    notebook.step(Step::Speak(MaySpeak::Yes));
    until("it came again", || expect(notebook.last(), Some((Phase::Gone, false)))).await;
    notebook.step(Step::Handle);
    until("the note is gone", || expect(writer.held(), Vec::new())).await;
    discoverer.stop().await;
}

#[tokio::test]
async fn only_the_process_that_may_speaks_to_the_writer() {
    let writer = NotesWriter::start(7).await;
    let discoverer = Running::start(&writer).await;
    let notebook = &discoverer.notebook;
    let set = |name: &str| notebook.step(Step::Set(key("home", name), Some(Note::present(1, name, [(1, 1)]))));
    set("a");
    until("the note is held", || expect(writer.held(), vec![key("home", "a")])).await;

    // Not now: the stream stays, and nothing is sent on it.
    notebook.step(Step::Speak(MaySpeak::NotNow));
    set("b");
    let mut inspection = discoverer.discoverer.inspection().await;
    eventually("the note is offered", SOON, async || {
        let listed = inspection.list_services(pb::ListServicesRequest::default()).await.unwrap().into_inner();
        expect(listed.services.len(), 2)
    })
    .await
    .unwrap();
    // A call later, so a message would have been sent in the meantime.
    inspection.list_services(pb::ListServicesRequest::default()).await.unwrap();
    assert_eq!((writer.held(), writer.streams()), (vec![key("home", "a")], (1, 1)));
    notebook.step(Step::Speak(MaySpeak::Yes));
    until("the note is held", || expect(writer.held(), vec![key("home", "a"), key("home", "b")])).await;
    assert_eq!(writer.streams(), (1, 1));

    // Another one speaks: the stream ends, and begins again only when this one may.
    notebook.step(Step::Speak(MaySpeak::No));
    until("the stream ended", || expect(writer.streams(), (1, 0))).await;
    set("c");
    notebook.step(Step::Speak(MaySpeak::Yes));
    until("the stream is there again", || expect(writer.streams(), (2, 1))).await;
    until("the notes are held", || expect(writer.held().len(), 3)).await;
    discoverer.stop().await;
}

#[tokio::test]
async fn an_answer_from_before_a_new_beginning_answers_no_later_request() {
    let writer = NotesWriter::start(7).await;
    let discoverer = Running::start(&writer).await;
    let notebook = &discoverer.notebook;
    let secret = Secret(b"word".to_vec());
    let hash = gimbal_session::Content::hash(&secret);
    notebook.step(Step::Set(key("home", "sealed"), Some(Note::sealed(2, hash))));
    until("a request came", || expect(notebook.requests(), 1)).await;
    notebook.step(Step::StartOver);
    until("it came again", || expect(notebook.requests(), 2)).await;
    notebook.step(Step::NoSecret);
    notebook.step(Step::Secret(secret.clone()));
    until("the content came", || expect(writer.contents(), vec![secret.clone()])).await;
    discoverer.stop().await;
}

/// The writer has changed its mind between two streams. That it acknowledges an entry says nothing of what it has decided.
#[tokio::test]
async fn a_report_ends_what_was_rejected_on_a_former_stream() {
    let writer = NotesWriter::start(7).await;
    let discoverer = Running::start(&writer).await;
    let notebook = &discoverer.notebook;
    let (list, sealed) = (key("home", "list"), key("home", "sealed"));
    for key in [&list, &sealed] {
        writer.refuse(key, true);
        notebook.step(Step::Set(key.clone(), Some(Note::present(1, "", [(1, 1)]))));
    }
    until("both are rejected", || expect(notebook.rejects().len(), 2)).await;
    notebook.step(Step::Speak(MaySpeak::No));
    until("the stream ended", || expect(writer.streams(), (1, 0))).await;
    writer.refuse(&list, false);
    notebook.step(Step::Speak(MaySpeak::Yes));
    // Sooner than time alone would tell.
    let tells = async || {
        expect(notebook.rejects()[2..].to_vec(), vec![(sealed.clone(), Some(Refusal::Invalid)), (list.clone(), None)])
    };
    eventually("the source hears of both", Duration::from_secs(10), tells).await.unwrap();
    assert_eq!(notebook.reports(&list), [(Phase::Made, 1)]);
    discoverer.stop().await;
}

/// Its owner learns that, as of what the writer rejects.
#[tokio::test]
async fn the_source_hears_which_entries_fit_in_no_frame() {
    let writer = NotesWriter::start(7).await;
    let discoverer = Running::start(&writer).await;
    let notebook = &discoverer.notebook;
    let (list, huge) = (key("home", "list"), "x".repeat(1 << 20));
    let mut heard = vec![(list.clone(), Some(Refusal::TooLarge))];
    notebook.step(Step::Set(list.clone(), Some(Note::present(1, &huge, []))));
    until("the source hears of it", || expect(notebook.rejects().first().cloned(), heard.first().cloned())).await;
    until("the stream is there", || expect(writer.streams(), (1, 1))).await;
    let before = notebook.rejects().len();
    writer.cut();
    until("it hears of it again, as of what the writer rejects", || expect(notebook.rejects().len() > before, true))
        .await;
    notebook.step(Step::Set(list.clone(), Some(Note::present(1, "list", []))));
    until("the writer holds it", || expect(writer.held(), vec![list.clone()])).await;
    heard.push((list.clone(), None));
    let mut said = notebook.rejects();
    said.dedup();
    assert_eq!(said, heard);
    discoverer.stop().await;
}

#[tokio::test]
async fn inspection_names_and_explains_the_entries() {
    let writer = NotesWriter::start(7).await;
    let discoverer = Running::start(&writer).await;
    for name in ["a", "b"] {
        discoverer.notebook.step(Step::Set(key("home", name), Some(Note::present(1, "", [(1, 1), (2, 2)]))));
    }
    until("the writer holds the notes", || expect(writer.held().len(), 2)).await;
    let mut inspection = discoverer.discoverer.inspection().await;
    let mut request = pb::ListServicesRequest { page_size: 1, ..Default::default() };
    let mut shown = Vec::new();
    loop {
        let page = inspection.list_services(request.clone()).await.unwrap().into_inner();
        shown.extend(page.services.into_iter().map(|status| (status.source.unwrap().name, status.endpoints)));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    assert_eq!(shown, [("1-a".to_owned(), 2), ("1-b".to_owned(), 2)]);

    for (name, part) in
        [("1-a", "a note with 2 lines"), ("1-none", "no such note"), ("none", "names none of the notes")]
    {
        let key = Some(pb::ServiceKey { namespace: "home".into(), name: name.into() });
        let source = pb::SourceRef { backend: "b".into(), key };
        let object = Some(pb::explain_request::Object::Source(source));
        let reasons =
            inspection.explain(pb::ExplainRequest { object, ..Default::default() }).await.unwrap().into_inner().reasons;
        assert!(reasons.join(" ").contains(part), "{reasons:?}");
    }
    discoverer.stop().await;
}
