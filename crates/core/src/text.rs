//! Text that is stored in a fact, or beside it when it is too long for one.
//! The heart never reads such text; whoever shows or sends it resolves the blob first.

use serde::{Deserialize, Serialize};

use crate::ids::BlobId;

/// Longest text that stands in a fact itself, in bytes; longer ones go to the blob store.
pub const INLINE_TEXT_LIMIT: usize = 32 * 1024;

/// Bytes of a spilled text that stay readable in the fact.
const HEAD_LIMIT: usize = 512;

/// A text, inline or in the blob store. Serialised as a plain string when inline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Text {
    /// The text itself, at most [`INLINE_TEXT_LIMIT`] bytes in a fact.
    Inline(String),
    /// A text that lies in the blob store.
    Blob {
        /// Where it lies.
        blob: BlobId,
        /// Its length in bytes.
        bytes: u64,
        /// Its first characters, for people.
        head: String,
    },
}

impl Text {
    /// The text as far as it can be shown without the blob store.
    #[must_use]
    pub fn head(&self) -> &str {
        match self {
            Self::Inline(text) => text,
            Self::Blob { head, .. } => head,
        }
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Inline(text) if text.is_empty())
    }

    /// Whether an inline text is too long for a fact.
    #[must_use]
    pub fn must_spill(&self) -> bool {
        matches!(self, Self::Inline(text) if text.len() > INLINE_TEXT_LIMIT)
    }

    /// The reference that replaces `text` once it lies in the blob store as `blob`.
    #[must_use]
    pub fn spilled(text: &str, blob: BlobId) -> Self {
        Self::Blob { blob, bytes: text.len() as u64, head: clip(text, HEAD_LIMIT).to_owned() }
    }
}

impl Default for Text {
    fn default() -> Self {
        Self::Inline(String::new())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::Inline(text.to_owned())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::Inline(text)
    }
}

/// The longest prefix of `text` of at most `limit` bytes that ends between two characters.
#[must_use]
pub fn clip(text: &str, limit: usize) -> &str {
    if text.len() <= limit {
        return text;
    }
    let mut end = limit;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clip_never_splits_a_character() {
        assert_eq!(clip("añb", 2), "a");
        assert_eq!(clip("añb", 3), "añ");
        assert_eq!(clip("ab", 9), "ab");
    }

    #[test]
    fn inline_text_is_stored_as_a_plain_string() {
        let text = Text::from("hello");
        assert_eq!(serde_json::to_string(&text).unwrap(), "\"hello\"");
        assert_eq!(serde_json::from_str::<Text>("\"hello\"").unwrap(), text);
    }
}
