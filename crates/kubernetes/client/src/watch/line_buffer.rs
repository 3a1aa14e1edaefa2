//! Splits a stream of bytes into lines. Pure.

use bytes::{Bytes, BytesMut};

use crate::page_bytes::LONGEST_OBJECT;

/// A line is longer than any object can be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Bytes received and not yet returned as a line.
#[derive(Debug, Default)]
pub(crate) struct LineBuffer {
    buffer: BytesMut,
    /// Length of the prefix that has no newline.
    searched: usize,
}

impl LineBuffer {
    pub(crate) fn push(&mut self, piece: &[u8]) {
        self.buffer.extend_from_slice(piece);
    }

    /// Returns the next complete line without its newline. Skips empty lines.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, TooLong> {
        while let Some(found) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
            let mut line = self.buffer.split_to(self.searched + found + 1);
            self.searched = 0;
            line.truncate(line.trim_ascii_end().len());
            if !line.is_empty() {
                return Ok(Some(line.freeze()));
            }
        }
        self.searched = self.buffer.len();
        if self.searched > LONGEST_OBJECT { Err(TooLong) } else { Ok(None) }
    }

    /// Whether there is an incomplete line.
    pub(crate) fn is_cut(&self) -> bool {
        !self.buffer.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_cut_gives_the_same_lines() {
        let text = b"{\"a\":1}\n\n{\"b\":2}\r\n{\"c\":3}";
        for size in 1..=text.len() {
            let mut lines = LineBuffer::default();
            let mut found = Vec::new();
            for piece in text.chunks(size) {
                lines.push(piece);
                while let Some(line) = lines.next().unwrap() {
                    found.push(String::from_utf8(line.to_vec()).unwrap());
                }
            }
            assert_eq!(found, ["{\"a\":1}", "{\"b\":2}"], "pieces of {size}");
            assert!(lines.is_cut());
            lines.push(b"\n");
            assert_eq!(lines.next().unwrap().unwrap(), "{\"c\":3}");
            assert!(!lines.is_cut());
        }
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut lines = LineBuffer::default();
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..16 {
            lines.push(&piece);
            assert_eq!(lines.next(), Ok(None));
        }
        lines.push(b"x");
        assert_eq!(lines.next(), Err(TooLong));
    }
}
