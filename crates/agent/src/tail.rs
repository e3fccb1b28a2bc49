//! The memory of an output: its first and its last bytes, so that 1 GB of output costs what two
//! bounds say. Used for reading the `result` block; the log on disk is `log`.

use std::collections::VecDeque;

/// The first and the last bytes of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_limit: usize,
    tail_limit: usize,
    dropped: u64,
}

impl Tail {
    /// Keeps the first `head` and the last `tail` bytes.
    #[must_use]
    pub fn new(head: usize, tail: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), head_limit: head, tail_limit: tail, dropped: 0 }
    }

    /// Takes in the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let (first, rest) = bytes.split_at(bytes.len().min(self.head_limit - self.head.len()));
        self.head.extend_from_slice(first);
        let kept = &rest[rest.len().saturating_sub(self.tail_limit)..];
        let surplus = (self.tail.len() + kept.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..surplus);
        self.tail.extend(kept);
        self.dropped += (surplus + rest.len() - kept.len()) as u64;
    }

    /// How many bytes in the middle were let go.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// What is kept, with a line that says how much is missing where something is.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.head.clone();
        if self.dropped > 0 {
            bytes.extend_from_slice(gap(self.dropped).as_bytes());
        }
        let (first, second) = self.tail.as_slices();
        bytes.extend_from_slice(first);
        bytes.extend_from_slice(second);
        bytes
    }
}

/// The line that stands for `bytes` that were let go.
pub(crate) fn gap(bytes: u64) -> String {
    format!("\n[… {bytes} bytes left out …]\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(pieces: &[&str]) -> Tail {
        let mut tail = Tail::new(3, 4);
        for piece in pieces {
            tail.push(piece.as_bytes());
        }
        tail
    }

    fn text(tail: &Tail) -> String {
        String::from_utf8(tail.to_bytes()).unwrap()
    }

    #[test]
    fn short_output_is_whole() {
        assert_eq!(text(&fed(&["abcd", "efg"])), "abcdefg");
        assert_eq!(fed(&["abcd", "efg"]).dropped(), 0);
    }

    #[test]
    fn long_output_keeps_both_ends_and_says_what_is_missing() {
        for pieces in [&["abcdefghij"] as &[&str], &["abcdef", "ghij"], &["a", "bcdefghi", "j"]] {
            let tail = fed(pieces);
            assert_eq!(text(&tail), "abc\n[… 3 bytes left out …]\nghij");
            assert_eq!(tail.dropped(), 3);
        }
    }

    proptest::proptest! {
        #[test]
        fn however_it_comes_the_same_is_kept(pieces in proptest::collection::vec(".{0,9}", 0..9)) {
            let mut whole = Tail::new(3, 4);
            whole.push(pieces.concat().as_bytes());
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            proptest::prop_assert_eq!(fed(&pieces).to_bytes(), whole.to_bytes());
        }
    }
}
