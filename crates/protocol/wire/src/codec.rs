//! A codec whose streams survive a damaged frame.
//!
//! tonic ends a stream when its decoder fails, so one damaged frame would end the stream of a backend, and the same
//! frame would end the next stream too. This codec decodes such a frame as an empty message, which is parsed as
//! "unreadable". The next frame is found, because gRPC sends the length of each.

use std::marker::PhantomData;

use prost::Message;
use prost::bytes::Buf;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder};
use tonic_prost::ProstCodec;

/// Like tonic's `ProstCodec`, but a frame that cannot be decoded becomes `U::default()` instead of ending the stream.
#[derive(Debug, Clone)]
pub struct TolerantCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for TolerantCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for TolerantCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = <ProstCodec<T, U> as Codec>::Encoder;
    type Decoder = TolerantDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::default())
    }

    fn decoder(&mut self) -> Self::Decoder {
        TolerantDecoder(PhantomData)
    }
}

/// The decoder of [`TolerantCodec`].
#[derive(Debug)]
pub struct TolerantDecoder<U>(PhantomData<U>);

impl<U: Message + Default> Decoder for TolerantDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        let length = buf.remaining();
        let message = U::decode(&mut *buf).unwrap_or_else(|error| {
            tracing::debug!(%error, length, "a frame cannot be decoded");
            U::default()
        });
        // A decoder that fails stops within the frame; the next frame begins after it.
        buf.advance(buf.remaining());
        Ok(Some(message))
    }
}
