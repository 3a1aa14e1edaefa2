//! Values in DER, as much of it as a bundle needs. What is made here may hold a key, and is wiped when it is dropped.

use zeroize::Zeroizing;

pub(super) const INTEGER: u8 = 0x02;
pub(super) const OCTETS: u8 = 0x04;
pub(super) const NULL: u8 = 0x05;
pub(super) const OID: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;
/// `[0] EXPLICIT`.
pub(super) const EXPLICIT: u8 = 0xa0;

/// Returns a value with its tag and length.
pub(super) fn value(tag: u8, parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    // With all the room that it takes nothing is left behind where it was before.
    let mut bytes = Zeroizing::new(Vec::with_capacity(length + 10));
    bytes.push(tag);
    let digits = length.to_be_bytes();
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => bytes.push(short),
        _ => {
            let first = digits.iter().position(|digit| *digit != 0).unwrap_or(digits.len());
            bytes.push(0x80 | u8::try_from(digits.len() - first).unwrap_or_default());
            bytes.extend_from_slice(&digits[first..]);
        }
    }
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

/// Takes the first value off, if it has this tag. Returns what is in it, and the rest.
pub(super) fn take(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, length], rest) = bytes.split_first_chunk::<2>()?;
    if found != tag {
        return None;
    }
    let (length, rest) = match length {
        short if short < 0x80 => (usize::from(short), rest),
        long => {
            let (digits, rest) =
                rest.split_at_checked(usize::from(long & 0x7f)).filter(|(digits, _)| digits.len() <= 4)?;
            (digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit)), rest)
        }
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_taken_out() {
        for length in [0, 1, 127, 128, 255, 256, 70_000] {
            let content = vec![7; length];
            let bytes = value(OCTETS, &[&content, &[1]]);
            let all = [&bytes[..], &[9, 9]].concat();
            let (inner, rest) = take(&all, OCTETS).unwrap();
            assert_eq!((inner.len(), inner.last(), rest), (length + 1, Some(&1), &[9, 9][..]), "{length}");
            assert_eq!((take(&all, OID), take(&bytes[..bytes.len() - 1], OCTETS)), (None, None));
        }
        assert_eq!((take(&[], OCTETS), take(&[4, 0x85, 1, 1, 1, 1, 1], OCTETS)), (None, None));
    }
}
