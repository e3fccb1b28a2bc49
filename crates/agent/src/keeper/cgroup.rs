//! A cgroup of the agent's own, where the system lets us make one: `cgroup.kill` reaches every
//! process in it at one blow, whatever forks meanwhile. Best effort; the process tree is what
//! counts, this makes it quicker and reaches what a killed keeper leaves.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// Tries to remove a cgroup whose last process has just ended.
const REMOVE_TRIES: u32 = 20;
const REMOVE_PAUSE: Duration = Duration::from_millis(5);

/// A cgroup (version 2) below our own.
#[derive(Debug)]
pub(crate) struct Cgroup(PathBuf);

impl Cgroup {
    /// Makes one for the keeper `pid`; `None` where there is no such file system, no right to
    /// write it or no `cgroup.kill`.
    pub(crate) fn make(pid: i32) -> Option<Self> {
        let own = own(
            &fs::read_to_string("/proc/self/mountinfo").ok()?,
            &fs::read_to_string("/proc/self/cgroup").ok()?,
        )?;
        // The time keeps the name apart from that of a former process, or one in another
        // container, with the same id.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.as_nanos();
        let cgroup = Self(own.join(format!("ensemble-{pid}-{now}")));
        fs::create_dir(&cgroup.0).ok()?;
        if cgroup.0.join("cgroup.kill").exists() && cgroup.0.to_str().is_some() {
            return Some(cgroup);
        }
        cgroup.remove();
        None
    }

    /// The one that a keeper reported.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The file whose writers join it.
    pub(crate) fn procs(&self) -> PathBuf {
        self.0.join("cgroup.procs")
    }

    /// The processes in it.
    pub(crate) fn members(&self) -> Vec<i32> {
        let list = fs::read_to_string(self.procs()).unwrap_or_default();
        list.lines().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// Kills everything in it.
    pub(crate) fn kill(&self) {
        // Failing is no loss: the tree is walked as well.
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
    }

    /// Removes it once it is empty; an empty one that stays harms nobody.
    pub(crate) fn remove(&self) {
        for _ in 0..REMOVE_TRIES {
            if fs::remove_dir(&self.0).is_ok() || !self.0.exists() {
                return;
            }
            std::thread::sleep(REMOVE_PAUSE);
        }
    }
}

/// Our own cgroup's directory, from the two files that tell it.
fn own(mountinfo: &str, cgroup: &str) -> Option<PathBuf> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mount = mountinfo.lines().find(|line| line.contains(" - cgroup2 "))?;
    let mut fields = mount.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    let below = Path::new(path).strip_prefix(root).ok()?;
    Some(Path::new(point).join(below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_cgroup_is_found_below_its_mount() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup rw\n\
                      31 23 0:27 / /proc rw - proc proc rw";
        let found = own(mounts, "1:cpu:/x\n0::/user.slice/me\n");
        assert_eq!(found.unwrap(), Path::new("/sys/fs/cgroup/unified/user.slice/me"));
        let container = mounts.replace("0:26 / ", "0:26 /docker/1 ");
        assert_eq!(own(&container, "0::/docker/1\n").unwrap(), Path::new("/sys/fs/cgroup/unified"));
        assert!(own(&container, "0::/elsewhere\n").is_none());
        assert!(own("31 23 0:27 / /proc rw - proc proc rw", "0::/\n").is_none());
    }
}
