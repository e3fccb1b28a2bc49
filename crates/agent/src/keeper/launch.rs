//! From keeper to agent: our binary once more, which sets up its own process and then becomes the
//! agent. Between fork and execution nothing of ours has to run, and none of the keeper's
//! signal mask, lock or socket reaches the agent.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Seek, Write},
    os::{
        fd::AsRawFd,
        unix::{fs::FileExt, process::CommandExt},
    },
    process::{Command, ExitCode, Stdio},
};

use nix::{
    sys::{
        prctl,
        signal::{SigSet, Signal},
    },
    unistd::{Pid, getppid},
};
use rustix::fs::{MemfdFlags, memfd_create};

use super::{cgroup::Cgroup, protocol::Spec};

/// Stands before the launcher's own arguments; nothing the keeper itself gets is spelt like it.
const MARK: &str = "--become-the-agent";
/// In place of the cgroup's path where there is none.
const NO_CGROUP: &str = "-";
/// Longest word on why a command could not be executed.
const VERDICT_LIMIT: usize = 4096;

/// What the launcher is told.
pub(crate) struct Order {
    keeper: i32,
    verdict: String,
    cgroup: OsString,
    program: OsString,
    args: Vec<OsString>,
}

/// Starts the agent in a process group of its own, the brief (from memory, so that nobody has to
/// write it while the agent reads) or nothing as its standard input. Also gives the file where the
/// launcher says why it could not become the agent.
pub(crate) fn start(spec: &Spec, brief: &[u8], cgroup: Option<&Cgroup>) -> io::Result<(Pid, File)> {
    if spec.command.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no command"));
    }
    if !spec.dir.is_dir() {
        let why = format!("the working directory {} is missing", spec.dir.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, why));
    }
    let verdict = memory("verdict")?;
    let stdin = if brief.is_empty() {
        Stdio::null()
    } else {
        let mut file = memory("brief")?;
        file.write_all(brief)?;
        file.rewind()?;
        file.into()
    };
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0(std::env::args_os().next().unwrap_or_default())
        .args(std::env::args_os().skip(1))
        .arg(MARK)
        .arg(std::process::id().to_string())
        .arg(verdict.as_raw_fd().to_string())
        .arg(cgroup.map_or(NO_CGROUP.into(), |one| one.procs().into_os_string()))
        .args(&spec.command)
        .current_dir(&spec.dir)
        .stdin(stdin)
        .process_group(0);
    let child = command.spawn()?;
    Ok((Pid::from_raw(child.id().cast_signed()), verdict))
}

/// Why the command could not be executed, if so.
pub(crate) fn verdict(file: &File) -> Option<String> {
    let mut text = [0; VERDICT_LIMIT];
    let length = file.read_at(&mut text, 0).ok()?;
    (length > 0).then(|| String::from_utf8_lossy(&text[..length]).into_owned())
}

/// The launcher's order, if these are its arguments.
pub(crate) fn ordered(args: impl Iterator<Item = OsString>) -> Option<Order> {
    let mut args = args.skip_while(|arg| arg != MARK).skip(1);
    let keeper: i32 = args.next()?.to_str()?.parse().ok()?;
    let verdict = format!("/proc/{keeper}/fd/{}", args.next()?.to_str()?);
    Some(Order { keeper, verdict, cgroup: args.next()?, program: args.next()?, args: args.collect() })
}

/// Turns this process into the agent. Comes back only if that fails.
pub(crate) fn become_agent(order: Order) -> ExitCode {
    let error = match prepare(&order) {
        Ok(()) => Command::new(&order.program).args(&order.args).exec(),
        Err(error) => error,
    };
    let why = format!("`{}`: {error}", order.program.display());
    if let Ok(mut file) = File::options().write(true).open(&order.verdict) {
        // A verdict that can't be written leaves the exit status, which is a failure too.
        let _ = file.write_all(&why.as_bytes()[..why.len().min(VERDICT_LIMIT)]);
    }
    ExitCode::FAILURE
}

fn prepare(order: &Order) -> io::Result<()> {
    // The second line of defence: a keeper that is killed takes at least the agent's own process
    // with it. It survives execution, and comes too late if the keeper is gone already.
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if getppid().as_raw() != order.keeper {
        return Err(io::Error::other("the keeper is gone"));
    }
    if order.cgroup != NO_CGROUP {
        // Best effort, as the cgroup itself.
        let _ = std::fs::write(&order.cgroup, "0");
    }
    SigSet::empty().thread_set_mask()?;
    Ok(())
}

fn memory(name: &str) -> io::Result<File> {
    Ok(File::from(memfd_create(name, MemfdFlags::CLOEXEC)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> impl Iterator<Item = OsString> {
        text.split(' ').map(OsString::from)
    }

    #[test]
    fn the_order_is_found_behind_the_verb_whatever_the_command_says() {
        let order =
            ordered(args("ensemble keeper --become-the-agent 7 3 - sh --become-the-agent -c")).unwrap();
        assert_eq!(order.keeper, 7);
        assert_eq!(order.verdict, "/proc/7/fd/3");
        assert_eq!(order.program, "sh");
        assert_eq!(order.args, ["--become-the-agent", "-c"]);
        assert!(ordered(args("ensemble keeper")).is_none());
    }
}
