//! `ensemble run --detach`: the run in a process of its own, which is our own binary again in a session
//! of its own, so that no terminal's end reaches it. The caller waits only until the run is durable.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use ensemble_core::ids::{RunId, Seq};
use ensemble_journal::{Journal, Stream};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    args::{Format, Run},
    error::{DoingTo, Error, Exit},
    order::Order,
    output,
    signals::Signals,
};

/// How often the process is looked at until the run is durable.
const LOOK: Duration = Duration::from_millis(100);

/// Where the process of a run writes.
#[must_use]
pub fn log(data: &Path, run: RunId) -> PathBuf {
    data.join("detached").join(format!("{run}.log"))
}

/// Starts a process that carries out the order, and returns once it has handed the run in.
///
/// # Errors
/// When it can't be started, or ends before that.
pub async fn start(args: &Run, order: &Order, run: RunId) -> Result<Exit, Error> {
    if args.plan.as_deref() == Some(Path::new("-")) {
        return Err(Error::usage(
            "a detached run can't read its plan from standard input",
            "write it to a file",
        ));
    }
    let mut signals = Signals::new()?;
    let journal = Journal::open(&order.data)?;
    let log = log(&order.data, run);
    let mut child = spawn(&log, run)?;
    let stream = Stream::Run(run);
    loop {
        let durable = journal.wait_beyond(&stream, Seq(0), LOOK);
        tokio::select! {
            durable = durable => if durable? { break },
            () = signals.next() => {
                // It handles that as any run in the foreground does: nothing was handed in yet.
                let _ = kill(pid(&child), Signal::SIGINT);
                return Ok(Exit::Interrupted);
            }
        }
        if let Some(status) = child.try_wait().doing_to("look after", "the new process")?
            && !journal.wait_beyond(&stream, Seq(0), Duration::ZERO).await?
        {
            let said = fs::read_to_string(&log).unwrap_or_default();
            said.lines().for_each(output::say);
            return Ok(if status.code() == Some(2) { Exit::Usage } else { Exit::Failed });
        }
    }
    match args.output.format {
        Format::Json => output::result(&output::detached_object(run, child.id(), &log).to_string())?,
        Format::Table => {
            output::result(&run.to_string())?;
            output::say(&format!("process {} works on it and writes to {}", child.id(), log.display()));
            output::say(&format!("ensemble watch {run}   tells it; wait, stop and logs work as ever"));
        }
    }
    Ok(Exit::Good)
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX))
}

fn spawn(log: &Path, run: RunId) -> Result<Child, Error> {
    let folder = log.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).doing_to("make the folder", folder)?;
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(log).doing_to("open", log)?;
    let twin: File = file.try_clone().doing_to("open", log)?;
    let program = std::env::current_exe().doing_to("find", "our own binary")?;
    let words = words(std::env::args_os().skip(1).collect(), run);
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(twin).stderr(file);
    command.spawn().doing_to("start", "a process for the run")
}

/// The same command line, for the process that does it.
fn words(mut words: Vec<OsString>, run: RunId) -> Vec<OsString> {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let rest = words.split_off(end);
    words.retain(|word| word != "--detach");
    words.extend([OsString::from("--detached-as"), OsString::from(run.to_string())]);
    words.extend(rest);
    words
}

/// Leaves the terminal and the session of whoever started this process.
pub fn leave() {
    // It fails only for a leader of a group, which has left already.
    let _ = nix::unistd::setsid();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_gets_the_same_words_but_one() {
        let run = RunId::from_parts(1, 1);
        let given = ["run", "--plan", "p.yaml", "--detach", "--", "--detach"].map(OsString::from).to_vec();
        let id = run.to_string();
        let expected =
            ["run", "--plan", "p.yaml", "--detached-as", &id, "--", "--detach"].map(OsString::from);
        assert_eq!(words(given, run), expected);
    }
}
