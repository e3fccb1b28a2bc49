//! Whether there is room for another run where the data lies. Only what begins something is refused:
//! what runs goes on, and the journal keeps trying.

use std::path::Path;

use crate::Error;

/// Free bytes below which no run is taken in: room for what the running ones still have to store.
const FLOOR: u64 = 64 << 20;

/// Refuses when there is too little room below `data`. Waits for the file system.
///
/// # Errors
/// [`Error::Full`] with the figures.
pub fn check(data: &Path) -> Result<(), Error> {
    // Where it can't be told, writing will.
    let Ok(seen) = rustix::fs::statvfs(data) else { return Ok(()) };
    enough(data, seen.f_bavail.saturating_mul(seen.f_frsize))
}

fn enough(data: &Path, free: u64) -> Result<(), Error> {
    if free >= FLOOR {
        return Ok(());
    }
    Err(Error::Full { data: data.to_owned(), free: free >> 20, floor: FLOOR >> 20 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_refused_with_the_figures() {
        assert!(enough(Path::new("/data"), FLOOR).is_ok());
        let why = enough(Path::new("/data"), FLOOR - 1).unwrap_err().to_string();
        assert!(why.contains("63 MiB are free below /data, 64 MiB are needed"), "{why}");
    }
}
