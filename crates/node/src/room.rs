//! Whether there is room on the disk for another attempt. Asked every second; what is said goes to
//! the node, which offers no slots while there is none. Running attempts go on, and what they write
//! for themselves is not watched.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ractor::ActorRef;
use rustix::fs::statvfs;
use tokio_util::task::AbortOnDropHandle;

use crate::{node, pool::Pool};

/// Free bytes below which nothing is begun: what the ends of running attempts and their logs need.
const FLOOR: u64 = 256 << 20;
/// Times that the largest working copy seen must fit in besides: one is made, one is changed.
const COPIES: u64 = 2;
/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// The room of one file system.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    folder: PathBuf,
    /// Bytes of the largest working copy made so far.
    largest: Arc<AtomicU64>,
}

impl Room {
    /// The room where `folder` lies.
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), largest: Arc::default() }
    }

    /// Notes the size of a working copy.
    pub(crate) fn note(&self, bytes: u64) {
        self.largest.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Why there is too little, for people; nothing if there is enough or it can't be told. Waits
    /// for the file system.
    pub(crate) fn shortage(&self) -> Option<String> {
        let seen = statvfs(&self.folder).ok()?;
        self.lacking(seen.f_bavail.saturating_mul(seen.f_frsize))
    }

    /// As [`Room::shortage`], once free working copies were given up for it.
    pub(crate) fn make(&self, pool: &Pool) -> Option<String> {
        self.shortage()?;
        pool.shrink(0);
        self.shortage()
    }

    fn lacking(&self, free: u64) -> Option<String> {
        let needed = FLOOR.max(self.largest.load(Ordering::Relaxed).saturating_mul(COPIES));
        (free < needed).then(|| {
            format!(
                "{} MiB are free below {}, {} MiB are needed to begin an attempt",
                free >> 20,
                self.folder.display(),
                needed.div_ceil(1 << 20)
            )
        })
    }
}

/// Looks again and again, and tells the node of each change. Free working copies make room first.
pub(crate) fn watch(
    room: Room,
    pool: Pool,
    mut told: Option<String>,
    node: ActorRef<node::Msg>,
) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            tokio::time::sleep(PAUSE).await;
            let (room, pool) = (room.clone(), pool.clone());
            let look = tokio::task::spawn_blocking(move || room.make(&pool));
            let Ok(short) = look.await else { continue };
            if short.is_some() != told.is_some() && node.send_message(node::Msg::Room(short.clone())).is_err()
            {
                return;
            }
            told = short;
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_needed_for_two_copies_and_never_less_than_the_floor() {
        let room = Room::new(Path::new("/data"));
        assert_eq!(room.lacking(FLOOR), None);
        let why = room.lacking(FLOOR - 1).unwrap();
        assert_eq!(why, "255 MiB are free below /data, 256 MiB are needed to begin an attempt");
        room.note(1 << 30);
        room.note(1 << 20);
        assert!(room.lacking(FLOOR).unwrap().contains("2048 MiB are needed"));
    }

    #[test]
    fn what_can_not_be_told_holds_up_nothing() {
        assert_eq!(Room::new(Path::new("/does/not/exist")).shortage(), None);
    }
}
