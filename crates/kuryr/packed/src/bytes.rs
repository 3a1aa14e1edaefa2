//! Bytes, compressed.

use std::cell::RefCell;
use std::io;

use zstd::bulk::{Compressor, Decompressor};

/// Compression level: what is kept longest is compressed once and read often, and reading takes the same time at every level.
const LEVEL: i32 = 3;

/// What comes before all texts, so that the words that all of them have need no place in any of them.
const SAMPLE: &[u8] = include_bytes!("bytes/sample.json");

thread_local! {
    /// To set them up takes longer than to use them.
    static CODEC: RefCell<Option<Codec>> = const { RefCell::new(None) };
}

struct Codec {
    compressor: Compressor<'static>,
    decompressor: Decompressor<'static>,
}

impl Codec {
    fn new() -> io::Result<Self> {
        let mut compressor = Compressor::with_dictionary(LEVEL, SAMPLE)?;
        compressor.include_checksum(false)?;
        compressor.include_dictid(false)?;
        Ok(Self { compressor, decompressor: Decompressor::with_dictionary(SAMPLE)? })
    }
}

/// Returns the bytes, compressed; `None` if that cannot be done, for want of memory for instance.
pub(crate) fn pack(bytes: &[u8]) -> Option<Vec<u8>> {
    with(|codec| codec.compressor.compress(bytes))
}

/// Returns what [`pack`] was given; `None` for bytes that it does not return.
pub(crate) fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    with(|codec| codec.decompressor.decompress(packed, crate::LONGEST))
}

fn with<T>(work: impl FnOnce(&mut Codec) -> io::Result<T>) -> Option<T> {
    CODEC.with_borrow_mut(|kept| {
        let codec = match kept {
            Some(codec) => codec,
            None => kept.insert(Codec::new().ok()?),
        };
        work(codec).ok()
    })
}
