//! Fingerprints of states.

use std::fmt::{self, Debug, Write};

/// Hashes the `Debug` output of a value. The entries between braces count in any order, because a `HashMap` has none;
/// the names of fields keep all other entries apart.
#[must_use]
pub fn fingerprint(value: &impl Debug) -> u64 {
    let mut text = Text { groups: vec![Group::new(false)], quoted: false, escaped: false };
    match write!(text, "{value:?}") {
        Ok(()) => text.groups.first().map_or(0, |group| finish(group.entry)),
        Err(error) => panic!("a state does not print: {error}"),
    }
}

/// The part of the text that was read, with its open brackets.
struct Text {
    groups: Vec<Group>,
    quoted: bool,
    escaped: bool,
}

struct Group {
    unordered: bool,
    /// Sum of the hashes of the complete entries.
    sum: u64,
    entry: u64,
}

impl Group {
    fn new(unordered: bool) -> Self {
        Self { unordered, sum: 0, entry: 0xcbf2_9ce4_8422_2325 }
    }

    fn end_entry(&mut self) {
        let ended = std::mem::replace(self, Self::new(self.unordered));
        self.sum = ended.sum.wrapping_add(finish(ended.entry));
    }
}

fn mix(hash: u64, with: u64) -> u64 {
    (hash ^ with).wrapping_mul(0x0000_0100_0000_01b3)
}

/// Mixes the bits of `hash`, so that sums of different hashes differ.
fn finish(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

impl Text {
    fn take(&mut self, byte: u8) {
        let inside = self.groups.len() > 1;
        let Some(group) = self.groups.last_mut() else { return };
        if self.quoted {
            self.quoted = self.escaped || byte != b'"';
            self.escaped = !self.escaped && byte == b'\\';
            group.entry = mix(group.entry, byte.into());
            return;
        }
        match byte {
            b' ' => {}
            b',' if group.unordered => group.end_entry(),
            b'{' | b'[' | b'(' => {
                group.entry = mix(group.entry, byte.into());
                self.groups.push(Group::new(byte == b'{'));
            }
            b'}' | b']' | b')' if inside => {
                let mut ended = self.groups.pop().unwrap_or_else(|| Group::new(false));
                ended.end_entry();
                if let Some(group) = self.groups.last_mut() {
                    group.entry = mix(mix(group.entry, finish(ended.sum)), byte.into());
                }
            }
            _ => {
                self.quoted = byte == b'"';
                group.entry = mix(group.entry, byte.into());
            }
        }
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| self.take(byte));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::fingerprint;

    #[test]
    fn maps_have_no_order_and_lists_have() {
        let numbers = || (0..50).map(|number| (number, format!("}}, \"{number}")));
        let (map, back): (HashMap<i32, _>, HashMap<i32, _>) = (numbers().collect(), numbers().rev().collect());
        let sorted: BTreeMap<i32, _> = numbers().collect();
        assert_eq!(fingerprint(&map), fingerprint(&back));
        assert_eq!(fingerprint(&map), fingerprint(&sorted));
        assert_ne!(fingerprint(&[1, 2]), fingerprint(&[2, 1]));
        assert_ne!(fingerprint(&"a, b"), fingerprint(&"b, a"));
    }
}
