//! The lock of an attempt's directory: a kernel lock (flock) that the keeper holds for its whole
//! life. While it is held, processes of the agent may still be there. Never the file's existence.

use std::{
    fs::{File, TryLockError},
    io,
    path::Path,
    time::{Duration, Instant},
};

/// Pause between two looks at a held lock: the kernel has no notice for it.
const PAUSE: Duration = Duration::from_millis(10);

/// Whether no keeper holds the lock file `path`. A missing file is free; one that can't be opened
/// or asked counts as held.
#[must_use]
pub fn lock_is_free(path: &Path) -> bool {
    match File::open(path) {
        // A shared lock, for a moment: two that look at once don't see each other.
        Ok(file) => file.try_lock_shared().is_ok(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Waits until the lock is free, at most until `deadline`; whether it is.
pub async fn wait_until_free(path: &Path, deadline: Instant) -> bool {
    loop {
        if lock_is_free(path) {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Takes the lock for this process, waiting at most `patience`; `None` when another holds it.
///
/// # Errors
/// When the file can't be made, or the file system has no locks.
pub(crate) fn hold(path: &Path, patience: Duration) -> io::Result<Option<File>> {
    let file = File::options().create(true).append(true).open(path)?;
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if started.elapsed() >= patience => return Ok(None),
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_free_before_and_after_but_not_while_it_is_held() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        assert!(lock_is_free(&path), "missing");
        let held = hold(&path, Duration::ZERO).unwrap();
        assert!(held.is_some());
        assert!(!lock_is_free(&path));
        assert!(hold(&path, Duration::ZERO).unwrap().is_none());
        drop(held);
        assert!(lock_is_free(&path));
    }

    #[tokio::test]
    async fn waiting_for_a_lock_has_an_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let _held = hold(&path, Duration::ZERO).unwrap();
        assert!(!wait_until_free(&path, Instant::now() + Duration::from_millis(30)).await);
    }
}
