//! The door of a coordinator: the shared secret that callers show, TLS, and connections through both.
//! What is said once one is inside is not here.

mod caller;
mod guard;
#[cfg(test)]
mod tests;

pub use caller::{Address, Bearer, Door, Refused, Way, open};
pub use guard::Guard;

use std::{fmt, io, path::Path, sync::Arc};

use subtle::ConstantTimeEq;
use tonic::metadata::{Ascii, MetadataValue};

/// Fewest characters of a secret: 16 random ones can't be guessed over a network.
const SHORTEST: usize = 16;

/// Most bytes of a secret: what a header holds.
const LONGEST: usize = 4096;

/// A secret that coordinators, nodes and clients share. Never printed.
#[derive(Clone)]
pub struct Token(Arc<str>);

/// Why a text is no token. Holds nothing of it.
#[derive(Debug, thiserror::Error)]
pub enum BadToken {
    /// It can be guessed.
    #[error("has fewer than {SHORTEST} characters; write one with `head -c 32 /dev/urandom | base64`")]
    Short,
    /// No header holds it.
    #[error("must be one word of printable ASCII, at most {LONGEST} characters")]
    Unprintable,
    /// The file can't be read.
    #[error(transparent)]
    Unreadable(#[from] io::Error),
}

impl Token {
    /// A token from text; white space around it does not count.
    ///
    /// # Errors
    /// [`BadToken`].
    pub fn new(text: &str) -> Result<Self, BadToken> {
        let text = text.trim();
        if text.len() > LONGEST || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(BadToken::Unprintable);
        }
        if text.len() < SHORTEST {
            return Err(BadToken::Short);
        }
        Ok(Self(text.into()))
    }

    /// The token in a file.
    ///
    /// # Errors
    /// [`BadToken`].
    pub fn read(file: &Path) -> Result<Self, BadToken> {
        Self::new(&std::fs::read_to_string(file)?)
    }

    /// As a header shows it; marked so that nothing logs it.
    fn header(&self) -> Option<MetadataValue<Ascii>> {
        let mut value: MetadataValue<Ascii> = format!("Bearer {}", self.0).parse().ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Whether a header shows this token. Takes as long for a near miss as for any other.
    fn is_in(&self, header: &[u8]) -> bool {
        let shown = header.strip_prefix(b"Bearer ").or_else(|| header.strip_prefix(b"bearer "));
        shown.is_some_and(|shown| shown.ct_eq(self.0.as_bytes()).into())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}
