//! Deterministic mutations of valid inputs, without a fuzzer.

/// An endless sequence of mutations.
#[derive(Debug)]
pub struct Mutations {
    from: Vec<Vec<u8>>,
    state: u64,
}

impl Mutations {
    /// Returns mutations of `from`, which must not be empty.
    #[must_use]
    pub fn new(from: Vec<Vec<u8>>) -> Self {
        assert!(!from.is_empty(), "nothing to mutate");
        Self { from, state: 0x9e37_79b9_7f4a_7c15 }
    }

    /// xorshift64*: good enough to reach every place.
    fn below(&mut self, limit: usize) -> usize {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let number = self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(number).unwrap_or_default() % limit.max(1)
    }

    fn mutate(&mut self, data: &mut Vec<u8>) {
        let at = self.below(data.len() + 1);
        match self.below(6) {
            0 => data.truncate(at),
            1 => data.insert(at, self.below(256).to_le_bytes()[0]),
            2 => {
                let end = (at + self.below(16)).min(data.len());
                data.drain(at..end);
            }
            3 => {
                let end = (at + self.below(32)).min(data.len());
                let piece = data[at..end].to_vec();
                data.splice(at..at, piece);
            }
            4 => {
                let other = self.below(self.from.len());
                let piece = self.from[other].clone();
                let start = self.below(piece.len() + 1);
                let end = (start + self.below(64)).min(piece.len());
                data.splice(at..at, piece[start..end].iter().copied());
            }
            _ => {
                let bit = self.below(8);
                if let Some(byte) = data.get_mut(at) {
                    *byte ^= 1 << bit;
                }
            }
        }
    }
}

impl Iterator for Mutations {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let one = self.below(self.from.len());
        let mut data = self.from[one].clone();
        for _ in 0..=self.below(4) {
            self.mutate(&mut data);
        }
        Some(data)
    }
}
