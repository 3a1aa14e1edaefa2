//! Tests each rule of contents by itself.

use std::time::Duration;

use gimbal_session::{AgentMessage, WriterMessage, WriterOutput};

use crate::payload::{Notes, Secret};
use crate::rules::{ends, exchange};

#[test]
fn a_content_travels_when_it_is_asked_for_and_has_the_hash() {
    let (mut agent, mut writer, now) = ends(10);
    let secret = Secret(vec![1, 2, 3]);
    let hash = gimbal_session::Content::hash(&secret);
    agent.answer_content(&hash, Some(secret.clone()));
    assert_eq!(agent.next(now), None, "it was not requested");
    writer.want_content(hash);
    writer.want_content(99);
    exchange(&mut agent, &mut writer, now);
    assert!(agent.requested_contents().eq([&99, &hash].iter().copied().collect::<std::collections::BTreeSet<_>>()));
    agent.answer_content(&hash, Some(secret.clone()));
    agent.answer_content(&99, Some(secret.clone()));
    let (_, mut outputs) = exchange(&mut agent, &mut writer, now);
    outputs.sort_by_key(|output| format!("{output:?}"));
    assert_eq!(outputs.len(), 2);
    assert!(outputs.contains(&WriterOutput::Content { hash, content: Some(secret.clone()) }));
    assert!(
        outputs.contains(&WriterOutput::Content { hash: 99, content: None }),
        "the agent has no content of that hash"
    );
    let outputs = writer.receive(AgentMessage::Content { hash, content: Some(secret) }, now);
    assert_eq!(outputs, [], "it was not asked for again");
}

/// The request is repeated while the answer to the first one is on its way. The agent answers both.
#[test]
fn the_second_answer_to_a_request_that_was_repeated_is_ignored() {
    let (_, mut writer, now) = ends(10);
    let secret = Secret(vec![1, 2, 3]);
    let hash = gimbal_session::Content::hash(&secret);
    writer.want_content(hash);
    let asks = |said: Vec<_>| said.contains(&WriterMessage::<Notes>::ContentRequest(hash));
    assert!(asks(writer.take_messages()));
    let late = now + Duration::from_secs(30);
    writer.tick(late);
    assert!(asks(writer.take_messages()));
    let answer = || AgentMessage::Content { hash, content: Some(secret.clone()) };
    let content = WriterOutput::Content { hash, content: Some(secret.clone()) };
    assert_eq!(writer.receive(answer(), late), [content]);
    assert_eq!(writer.receive(answer(), late), []);
}

#[test]
fn a_content_that_was_not_answered_is_asked_for_again_on_a_new_stream() {
    let (mut agent, mut writer, now) = ends(10);
    writer.want_content(5);
    for _ in 0..2 {
        let (said, _) = exchange(&mut agent, &mut writer, now);
        assert!(said.contains(&WriterMessage::ContentRequest(5)), "{said:?}");
        agent.disconnected();
        agent.connected(now);
    }
    writer.forget_content(&5);
    let (said, _) = exchange(&mut agent, &mut writer, now);
    assert!(!said.contains(&WriterMessage::ContentRequest(5)), "{said:?}");
}

#[test]
fn a_content_with_another_hash_is_not_taken() {
    let (_, mut writer, now) = ends(10);
    writer.want_content(99);
    writer.take_messages();
    let outputs = writer.receive(AgentMessage::Content { hash: 99, content: Some(Secret(vec![1])) }, now);
    let reason = "a content came that does not have the hash that was asked for".into();
    let unreadable = WriterOutput::Unreadable { key: None, reason };
    assert_eq!(outputs, [unreadable, WriterOutput::Content { hash: 99, content: None }]);
}

#[test]
fn requests_that_are_not_answered_or_answered_wrongly_leave_their_places() {
    let requests = |said: Vec<WriterMessage<Notes>>| -> Vec<u64> {
        let hashes = said.into_iter().filter_map(|message| match message {
            WriterMessage::ContentRequest(hash) => Some(hash),
            _ => None,
        });
        hashes.collect()
    };
    let (_, mut writer, now) = ends(10);
    (1..=7).for_each(|hash| writer.want_content(hash));
    assert_eq!(requests(writer.take_messages()), [1, 2, 3, 4], "four at a time");
    writer.receive(AgentMessage::Content { hash: 2, content: Some(Secret(vec![9])) }, now);
    assert_eq!(requests(writer.take_messages()), [5], "a wrong answer is an answer");
    let late = now + Duration::from_secs(30);
    assert_eq!(writer.next_deadline(), Some(late));
    writer.tick(late - Duration::from_millis(1));
    assert_eq!(requests(writer.take_messages()), [0; 0]);
    writer.tick(late);
    assert_eq!(requests(writer.take_messages()), [6, 7, 1, 3], "those that have waited longest go first");
    assert_eq!(writer.next_deadline(), Some(late + Duration::from_secs(30)));
    // An answer that comes late, to a request that is not repeated yet.
    let outputs = writer.receive(AgentMessage::Content { hash: 4, content: None }, late);
    assert_eq!(outputs, [WriterOutput::Content { hash: 4, content: None }]);
    writer.receive(AgentMessage::Content { hash: 7, content: None }, late);
    assert_eq!(requests(writer.take_messages()), [5]);
}
