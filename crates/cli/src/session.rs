//! A run in the foreground: told as it happens, brought home when it ends in any way, summed up at the
//! end. The first signal lets agents be stopped and their work kept; the second ends at once.

use std::path::PathBuf;

use ensemble_core::run::state::{Attempt, Check, CheckState, Checks, Stage, State};
use ensemble_workspace::UserRepository;

use crate::{
    args::Format,
    embedded::Embedded,
    error::{Error, Exit},
    follow::Follower,
    home,
    notify::{self, Notify},
    output::{self, Home},
    signals::Signals,
};

/// A run that this process owns and tells.
#[derive(Debug)]
pub struct Session {
    /// The coordinator and the node in this process.
    pub embedded: Embedded,
    /// The run and where it is told.
    pub follower: Follower,
    /// Where the result goes.
    pub repository: Option<UserRepository>,
    /// The user's branch to move, too.
    pub into: Option<String>,
    /// The data directory.
    pub data: PathBuf,
    /// How the result is printed.
    pub format: Format,
    /// Who is told at the end.
    pub notify: Option<Notify>,
    /// A folder that was made for the run, which programs are told.
    pub made: Option<PathBuf>,
}

impl Session {
    /// Goes on until the run is over or the process is told to end.
    ///
    /// # Errors
    /// When the run can't be followed any more; it can be resumed then.
    pub async fn carry_on(mut self, mut signals: Signals) -> Result<Exit, Error> {
        let client = self.embedded.client().clone();
        tokio::select! {
            () = self.embedded.node_ended() => {
                Err(Error::broken("the part that runs agents failed again and again"))
            }
            followed = self.follower.follow(&client) => {
                self.follower.screen.clear();
                match followed {
                    Ok(()) => self.end(signals).await,
                    Err(error) => {
                        let run = self.follower.narrator.state().run;
                        output::say(&format!("run {run} can go on: ensemble resume {run}"));
                        Err(error)
                    }
                }
            }
            () = signals.next() => self.interrupt(signals).await,
        }
    }

    /// The run is over.
    async fn end(self, mut signals: Signals) -> Result<Exit, Error> {
        let state = self.follower.narrator.state();
        let (run, exit) = (state.run, Exit::of(state.state()));
        tokio::select! {
            home = self.bring_home() => {
                self.print(&home)?;
                self.notify(&home).await;
            }
            () = signals.next() => {
                output::say(&format!("run {run} is over; bring its branch home with: ensemble fetch {run}"));
            }
        }
        self.embedded.shutdown().await;
        Ok(exit)
    }

    /// The process shall end: once more, and it ends at once.
    async fn interrupt(mut self, mut signals: Signals) -> Result<Exit, Error> {
        let run = self.follower.narrator.state().run;
        self.follower.screen.clear();
        output::say(
            "interrupted: agents are being stopped and what they did is kept; once more ends at once",
        );
        let client = self.embedded.client().clone();
        let drained = tokio::select! {
            () = self.embedded.drain() => true,
            () = signals.next() => false,
            // What the stopped agents leave is told too; once all is told the node needs no more time.
            followed = self.follower.follow_until(&client, is_idle) => followed.is_ok(),
        };
        // What was told meanwhile has drawn them again, over what is printed from here on.
        self.follower.screen.clear();
        // It may have come to its end on the way.
        let (over, exit) = (self.follower.is_over(), Exit::of(self.follower.narrator.state().state()));
        if drained {
            let home = self.bring_home().await;
            self.print(&home)?;
            if over {
                self.notify(&home).await;
            }
            self.embedded.shutdown().await;
        } else {
            self.embedded.kill().await;
        }
        if over {
            return Ok(exit);
        }
        output::say(&format!("run {run} can go on: ensemble resume {run}"));
        Ok(Exit::Interrupted)
    }

    async fn bring_home(&self) -> Home {
        let state = self.follower.narrator.state();
        let (client, into) = (self.embedded.client(), self.into.as_deref());
        home::bring(client, self.repository.as_ref(), state, into, &self.data).await
    }

    async fn notify(&self, home: &Home) {
        let state = self.follower.narrator.state();
        notify::tell(self.notify.as_ref(), &output::notice_object(state, home)).await;
    }

    fn print(&self, home: &Home) -> Result<(), Error> {
        let state = self.follower.narrator.state();
        match self.format {
            Format::Json => {
                let mut object = output::run_object(state, Some(home));
                if let (Some(made), Some(map)) = (&self.made, object.as_object_mut()) {
                    map.insert("dir".to_owned(), made.display().to_string().into());
                }
                output::result(&object.to_string())
            }
            Format::Table => output::result(&output::summary(state, home).join("\n")),
        }
    }
}

/// Whether nothing of a run is with a node.
fn is_idle(state: &State) -> bool {
    let runs = |check: &Check| matches!(check.state, CheckState::Live { .. });
    let checked = |checks: &Checks| checks.each.iter().any(runs);
    let busy = |attempt: &Attempt| match &attempt.stage {
        Stage::Assigned | Stage::Working => true,
        stage => stage.checks().is_some_and(checked),
    };
    let attempts = state.tasks.iter().filter_map(|task| task.attempt.as_ref());
    !attempts.into_iter().any(busy) && !state.final_checks.as_ref().is_some_and(checked)
}
