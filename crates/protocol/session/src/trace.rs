//! The trace of a change, as it travels beside it.

use std::fmt;
use std::num::NonZeroU64;

/// Length of a `traceparent` without extensions.
const LENGTH: usize = 55;

/// Names the trace of a sampled change, and the span in it that the next process continues: what a W3C `traceparent` says.
/// A change that is not sampled has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: [u8; 16],
    // Never 0, so that the absence of a context takes no room.
    span_id: NonZeroU64,
}

impl TraceContext {
    /// Creates a context. Returns `None` if one of the numbers is 0, which names nothing.
    #[must_use]
    pub fn new(trace_id: [u8; 16], span_id: [u8; 8]) -> Option<Self> {
        let span_id = NonZeroU64::new(u64::from_be_bytes(span_id))?;
        (trace_id != [0; 16]).then_some(Self { trace_id, span_id })
    }

    /// Parses a `traceparent` of any version, as W3C Trace Context asks for. Returns `None` if it is not valid, or says that
    /// the change is not sampled.
    #[must_use]
    pub fn parse(traceparent: &str) -> Option<Self> {
        const SAMPLED: u8 = 1;
        let (text, rest) = (traceparent.get(..LENGTH)?, traceparent.get(LENGTH..)?);
        let mut parts = text.split('-');
        let mut part = || parts.next().map(str::as_bytes);
        let ([version], trace_id, span_id, [flags]) = (hex(part()?)?, hex(part()?)?, hex(part()?)?, hex(part()?)?);
        // A later version may append fields; this one has none.
        let extended = rest.is_empty() || (version > 0 && rest.starts_with('-'));
        let counts = version != u8::MAX && extended && flags & SAMPLED != 0;
        Self::new(trace_id, span_id).filter(|_| counts)
    }

    /// Returns the number of the trace.
    #[must_use]
    pub fn trace_id(&self) -> [u8; 16] {
        self.trace_id
    }

    /// Returns the number of the span that is continued.
    #[must_use]
    pub fn span_id(&self) -> [u8; 8] {
        self.span_id.get().to_be_bytes()
    }
}

impl fmt::Display for TraceContext {
    /// Writes the `traceparent`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-01", u128::from_be_bytes(self.trace_id), self.span_id)
    }
}

/// Parses lower-case hexadecimal digits, which must be as many as `N` bytes have.
fn hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = text.as_chunks::<2>() else { return None };
    let mut bytes = [0; N];
    if pairs.len() != N {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = (digit(*high)? << 4) | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn what_is_written_is_read() {
        let context = TraceContext::parse(TEXT).unwrap();
        assert_eq!(context.to_string(), TEXT);
        assert_eq!((context.trace_id()[0], context.span_id()[0]), (0x0a, 0xb7));
        assert_eq!(TraceContext::new(context.trace_id(), context.span_id()), Some(context));
        assert_eq!(TraceContext::parse(&format!("01{}-more", &TEXT[2..])), Some(context), "a later version");
        assert_eq!(TraceContext::parse(&format!("{}3", &TEXT[..54])), Some(context), "a further flag");
        assert_eq!(size_of::<Option<TraceContext>>(), 24);
    }

    #[test]
    fn what_is_wrong_or_not_sampled_is_none() {
        let upper = TEXT.to_uppercase();
        let zero = |from: usize, to: usize| format!("{}{}{}", &TEXT[..from], "0".repeat(to - from), &TEXT[to..]);
        for text in [
            "",
            "00",
            &TEXT[..54],
            &format!("{TEXT}-more"),
            &format!("01{}more", &TEXT[2..]),
            &format!("ff{}", &TEXT[2..]),
            &format!("{}0", &TEXT[..54]),
            &upper,
            &TEXT.replace('-', "_"),
            &TEXT.replacen("0a", "-0", 1),
            &TEXT.replacen("0af", "ü1", 1),
            &zero(3, 35),
            &zero(36, 52),
        ] {
            assert_eq!(TraceContext::parse(text), None, "{text}");
        }
    }
}
