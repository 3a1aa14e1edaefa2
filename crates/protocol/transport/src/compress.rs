//! Compresses long messages only. tonic compresses either every message of a stream or none, with a new zstd context
//! for each; for a change of a hundred bytes that is a tenth of all work and saves nothing. gRPC marks each message as
//! compressed or not, so long messages are compressed here, after tonic has encoded them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::header::HeaderValue;
use http_body::{Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

/// Length in bytes from which a message is compressed.
const WORTH_IT: usize = 1024;
/// Compression level: zstd's default.
const LEVEL: i32 = 3;
/// Bytes before each message: the compression flag and the length.
const PREFIX: usize = 5;

/// Sets the `grpc-encoding` header, and compresses the long messages of the body.
pub(crate) fn compressed(mut request: http::Request<Body>) -> http::Request<Body> {
    request.headers_mut().insert("grpc-encoding", HeaderValue::from_static("zstd"));
    request.map(|inner| Body::new(Compressed { inner, begun: BytesMut::new() }))
}

struct Compressed {
    inner: Body,
    /// The start of a message whose rest has not arrived.
    begun: BytesMut,
}

impl http_body::Body for Compressed {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            let frame = match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            let data = match frame.into_data() {
                Ok(data) => data,
                Err(other) => return Poll::Ready(Some(Ok(other))),
            };
            match messages(&mut self.begun, data) {
                Ok(whole) if whole.is_empty() => {}
                Ok(whole) => return Poll::Ready(Some(Ok(Frame::data(whole)))),
                Err(error) => return Poll::Ready(Some(Err(Status::internal(format!("cannot compress: {error}"))))),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.begun.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

/// Returns the messages that are complete with `data`, compressed where that makes them shorter. The rest stays in
/// `begun`.
fn messages(begun: &mut BytesMut, data: Bytes) -> io::Result<Bytes> {
    if begun.is_empty() && all_short(&data) {
        return Ok(data);
    }
    begun.extend_from_slice(&data);
    let mut whole = BytesMut::new();
    while let Some(length) = length(begun).filter(|length| begun.len() >= PREFIX + length) {
        let message = begun.split_to(PREFIX + length);
        // A message that is compressed already is not compressed again.
        let plain = message.first() == Some(&0) && length >= WORTH_IT;
        let small = if plain { zstd::bulk::compress(&message[PREFIX..], LEVEL)? } else { Vec::new() };
        match u32::try_from(small.len()) {
            Ok(size) if plain && small.len() < length => {
                whole.put_u8(1);
                whole.put_u32(size);
                whole.extend_from_slice(&small);
            }
            _ => whole.extend_from_slice(&message),
        }
    }
    Ok(whole.freeze())
}

/// Returns whether these are complete messages that are all too short to compress.
fn all_short(mut data: &[u8]) -> bool {
    while let Some(length) = length(data) {
        if length >= WORTH_IT || data.len() < PREFIX + length {
            return false;
        }
        data.advance(PREFIX + length);
    }
    data.is_empty()
}

/// Returns the length of the message that begins here; `None` if its prefix is incomplete.
fn length(data: &[u8]) -> Option<usize> {
    let length: [u8; 4] = data.get(1..PREFIX)?.try_into().ok()?;
    usize::try_from(u32::from_be_bytes(length)).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn framed(messages: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for message in messages {
            bytes.put_u8(0);
            bytes.put_u32(message.len().try_into().unwrap());
            bytes.extend_from_slice(message);
        }
        bytes
    }

    /// Returns the messages as the receiver reads them, and how many were compressed.
    fn read(mut sent: &[u8]) -> (Vec<Vec<u8>>, usize) {
        let (mut messages, mut small) = (Vec::new(), 0);
        while sent.has_remaining() {
            let (flag, length) = (sent.get_u8(), sent.get_u32() as usize);
            let (message, rest) = sent.split_at(length);
            small += usize::from(flag == 1);
            messages.push(if flag == 1 { zstd::bulk::decompress(message, 1 << 20).unwrap() } else { message.to_vec() });
            sent = rest;
        }
        (messages, small)
    }

    fn message() -> impl Strategy<Value = Vec<u8>> {
        let any_bytes = |most| proptest::collection::vec(any::<u8>(), 0..most);
        prop_oneof![any_bytes(40), any_bytes(3000), (0usize..5000).prop_map(|length| vec![b'x'; length])]
    }

    proptest! {
        /// However the bytes are split, the same messages arrive, and none is longer than before.
        #[test]
        fn the_same_messages_arrive(messages in proptest::collection::vec(message(), 0..8), cut in 1usize..4000) {
            let bytes = framed(&messages);
            let (mut begun, mut sent) = (BytesMut::new(), Vec::new());
            for piece in bytes.chunks(cut) {
                sent.extend_from_slice(&super::messages(&mut begun, Bytes::copy_from_slice(piece)).unwrap());
            }
            prop_assert!(begun.is_empty() && sent.len() <= bytes.len());
            let (arrived, small) = read(&sent);
            prop_assert_eq!(&arrived, &messages);
            let worth_it = messages.iter().filter(|m| m.len() >= WORTH_IT && m.iter().all(|byte| *byte == b'x'));
            prop_assert!(small >= worth_it.count());
            prop_assert!(small <= messages.iter().filter(|m| m.len() >= WORTH_IT).count());
        }
    }
}
