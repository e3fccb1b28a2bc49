//! Cutting what is written into chunks for a stream of messages; each side says what a chunk becomes.

use std::io;

use crate::CHUNK;

/// Gathers what is written and hands it on in chunks of [`CHUNK`] bytes. What is left when the writing
/// ends goes out by `flush`.
#[derive(Debug)]
pub struct Chunks<F> {
    send: F,
    chunk: Vec<u8>,
}

impl<F: FnMut(Vec<u8>) -> io::Result<()>> Chunks<F> {
    /// Chunks that go to `send`, which fails when nobody reads any more.
    pub fn new(send: F) -> Self {
        Self { send, chunk: Vec::with_capacity(CHUNK) }
    }
}

impl<F: FnMut(Vec<u8>) -> io::Result<()>> io::Write for Chunks<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(CHUNK - self.chunk.len());
        self.chunk.extend_from_slice(&bytes[..taken]);
        if self.chunk.len() == CHUNK {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        (self.send)(std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn all_arrives_in_order_and_no_chunk_is_too_long_or_empty() {
        let bytes: Vec<u8> = (0..=255_u8).cycle().take(2 * CHUNK + 7).collect();
        let mut sent = Vec::new();
        let mut out = Chunks::new(|chunk: Vec<u8>| {
            sent.push(chunk);
            Ok(())
        });
        out.write_all(&bytes).unwrap();
        out.flush().unwrap();
        out.flush().unwrap();
        drop(out);
        assert_eq!(sent.iter().map(Vec::len).collect::<Vec<_>>(), [CHUNK, CHUNK, 7]);
        assert_eq!(sent.concat(), bytes);
    }

    #[test]
    fn a_reader_that_left_ends_the_writing() {
        let mut out = Chunks::new(|_: Vec<u8>| Err(io::ErrorKind::BrokenPipe.into()));
        assert!(out.write_all(&vec![0; CHUNK]).is_err());
    }
}
