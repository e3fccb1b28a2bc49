//! The logs of attempts while they grow: files of the data directory, written by offset. Once the end of
//! an attempt is journalled its log lies in the blob store.

use std::path::{Path, PathBuf};

use ensemble_core::link::AttemptKey;
use tokio::io::{AsyncSeekExt, AsyncWriteExt};

use crate::Error;

/// Largest log of one attempt: what a node keeps of it, and the line that names the gap.
pub const LOG_LIMIT: u64 = 17 * 1024 * 1024;

/// Where the log of an attempt or a check grows.
#[must_use]
pub fn path(data: &Path, key: &AttemptKey) -> PathBuf {
    data.join("logs").join(key.run.to_string()).join(format!("{}.log", name(key)))
}

/// An attempt or a check in a few characters: `ST-4.2`, `ST-4.2.c1`, `run.1.c1`.
#[must_use]
pub fn name(key: &AttemptKey) -> String {
    let task = key.task.as_ref().map_or("run", |task| task.as_str());
    let check = key.check.map(|check| format!(".c{check}")).unwrap_or_default();
    // A task may be called `run`; its own attempts have no check number, the run's checks always do,
    // and the attempt of a task's check is told apart by the dash.
    let mark = if key.task.is_none() { "-" } else { "" };
    format!("{mark}{task}.{}{check}", key.attempt)
}

/// A log that grows.
#[derive(Debug)]
pub struct Growing {
    file: tokio::fs::File,
    length: u64,
}

impl Growing {
    /// Opens the log of an attempt.
    ///
    /// # Errors
    /// [`Error::Io`] when it can't be made.
    pub async fn open(data: &Path, key: &AttemptKey) -> Result<Self, Error> {
        let path = path(data, key);
        let wrap = |source| Error::Io { what: format!("open the log {}", path.display()), source };
        if let Some(folder) = path.parent() {
            tokio::fs::create_dir_all(folder).await.map_err(wrap)?;
        }
        let mut options = tokio::fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).open(&path).await.map_err(wrap)?;
        Ok(Self { file, length: 0 })
    }

    /// Writes a chunk at its place. What lies beyond the bound is dropped.
    ///
    /// # Errors
    /// [`Error::Io`] when it can't be written.
    pub async fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let end = offset.saturating_add(data.len() as u64);
        if end > LOG_LIMIT {
            return Ok(());
        }
        let wrap = |source| Error::Io { what: "write a log".to_owned(), source };
        self.file.seek(std::io::SeekFrom::Start(offset)).await.map_err(wrap)?;
        self.file.write_all(data).await.map_err(wrap)?;
        self.file.flush().await.map_err(wrap)?;
        self.length = self.length.max(end);
        Ok(())
    }

    /// How much of it there is.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }
}
