//! Reading the result file that an agent may have left. The agent had that path in its hands, so
//! it may be anything: a pipe that never ends, a link to elsewhere, a gigabyte.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use rustix::fs::OFlags;

use super::RESULT_LIMIT;

/// The bytes of the result file `path`, at most one more than [`RESULT_LIMIT`] (so that
/// [`outcome`](super::outcome) refuses a longer one); `None` when there is none. Links are not
/// followed, and nothing but a plain file is read.
///
/// # Errors
/// What is wrong with it, in words for the task's outcome.
pub fn read_file(path: &Path) -> Result<Option<Vec<u8>>, String> {
    let wrong = |error: io::Error| format!("the result file {} can't be read: {error}", path.display());
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits();
    let file = match File::options().read(true).custom_flags(flags.cast_signed()).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(error)),
    };
    if !file.metadata().map_err(wrong)?.is_file() {
        return Err(format!("the result file {} is not a plain file", path.display()));
    }
    let mut bytes = Vec::new();
    file.take(RESULT_LIMIT as u64 + 1).read_to_end(&mut bytes).map_err(wrong)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_file_of_bounded_size_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        assert_eq!(read_file(&path("absent")), Ok(None));

        std::fs::write(path("plain"), "{}").unwrap();
        assert_eq!(read_file(&path("plain")), Ok(Some(b"{}".to_vec())));

        std::fs::write(path("long"), vec![b' '; 2 * RESULT_LIMIT]).unwrap();
        assert_eq!(read_file(&path("long")).unwrap().unwrap().len(), RESULT_LIMIT + 1);

        std::os::unix::fs::symlink(path("plain"), path("link")).unwrap();
        assert!(read_file(&path("link")).is_err());

        nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(read_file(&path("pipe")).unwrap_err().contains("not a plain file"));
    }
}
