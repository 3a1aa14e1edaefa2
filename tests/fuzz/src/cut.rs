//! Several messages in one input: each is preceded by its length in two bytes, where gRPC has four.

/// Returns the messages of an input. The last one may be shorter than its length says.
pub(crate) fn cut(mut data: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = data.split_first_chunk::<2>()?;
        let (message, rest) = rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len()));
        data = rest;
        Some(message)
    })
}

/// Returns the input that is cut into these messages.
pub(crate) fn join(messages: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut data = Vec::new();
    for message in messages {
        let length = u16::try_from(message.len()).unwrap_or(u16::MAX);
        data.extend(length.to_le_bytes());
        data.extend(&message[..usize::from(length)]);
    }
    data
}
