//! The steps before an agent runs: the base in the mirror, a working copy of it, ports, the files
//! that the agent is given.

use std::{collections::BTreeMap, ffi::OsString, fs, path::PathBuf};

use ensemble_agent::{ALLOWED, environment};
use ensemble_core::{
    message::{What, Work},
    plan::WorktreeMode,
};
use ensemble_workspace::Worktree;

use super::{Failure, Job, Performer, blocking};
use crate::{Error, error::DoingTo, folder::Folder, pool::Owner, ports::Ports};

/// What an agent finds.
pub(super) struct Prepared {
    /// The working copy; nothing where the task has none.
    pub(super) worktree: Option<Worktree>,
    /// Where the agent works.
    pub(super) dir: PathBuf,
    /// Its environment.
    pub(super) env: BTreeMap<String, OsString>,
    /// Held while the attempt lives.
    _ports: Option<Ports>,
}

impl Job {
    /// Whether the attempt works on files.
    pub(super) fn has_files(&self) -> bool {
        !matches!(&self.stored.assign.what, What::Work(work) if work.worktree == Some(WorktreeMode::None))
    }

    pub(super) async fn prepare(&mut self) -> Result<Prepared, Failure> {
        let dir = self.folder.work();
        let worktree = if self.has_files() {
            self.fetch().await?;
            let worktree = self.check_out().await?;
            self.recall(&worktree).await;
            Some(worktree)
        } else {
            None
        };
        let (folder, context) = (self.folder.clone(), self.context());
        let ports = blocking(move || {
            fs::create_dir_all(folder.work()).doing_to("make the folder", folder.work())?;
            furnish(&folder, context.as_deref())?;
            Ok(Ports::take())
        });
        let ports = ports.await.map_err(|error| Failure::Environment(error.to_string()))?;
        if let Some(halt) = self.halting.why() {
            return Err(Failure::Halted(halt));
        }
        let env = self.environment(ports.as_ref());
        Ok(Prepared { worktree, dir, env, _ports: ports })
    }

    async fn fetch(&mut self) -> Result<(), Failure> {
        let (world, assign) = (self.world.clone(), self.stored.assign.clone());
        let dial = world.peers.dial(assign.key.run);
        let fetching = world.mirrors.ensure(&dial, &assign.repository, assign.key.run, &assign.base);
        tokio::select! {
            biased;
            halt = self.halting.told() => Err(Failure::Halted(halt)),
            fetched = fetching => fetched.map_err(|trouble| {
                Failure::Environment(format!("the base {} can't be fetched: {trouble}", assign.base))
            }),
        }
    }

    async fn check_out(&self) -> Result<Worktree, Failure> {
        let failed = |why: &dyn std::fmt::Display| Failure::Environment(format!("no working copy: {why}"));
        let mirror = self.world.mirrors.reader(&self.stored.assign.repository).await;
        let mirror = mirror.map_err(|trouble| failed(&trouble))?;
        let (path, assign) = (self.folder.work(), self.stored.assign.clone());
        let keep = matches!(&self.performer, Performer::Employee { keep_ignored: true, .. });
        let world = self.world.clone();
        let made = blocking(move || {
            let (of, whose) = ((&assign.repository, &assign.base), Owner::of(&assign.what));
            let worktree = world.pool.take(&mirror, of, (&whose, keep), &path)?;
            world.room.note(worktree.size());
            Ok(worktree)
        });
        made.await.map_err(|error| failed(&error))
    }

    /// Shows the agent what the attempt before this one had. It helps and is not needed: a failure is told
    /// and changes nothing.
    async fn recall(&self, worktree: &Worktree) {
        let What::Work(Work { previous: Some((name, commit)), .. }) = &self.stored.assign.what else {
            return;
        };
        let (world, assign) = (&self.world, &self.stored.assign);
        let dial = world.peers.dial(assign.key.run);
        let fetched = world.mirrors.ensure(&dial, &assign.repository, assign.key.run, commit).await;
        let (worktree, named, of) = (worktree.clone(), name.clone(), commit.clone());
        let shown = match fetched {
            Ok(()) => {
                blocking(move || Ok(worktree.name_commit(&named, &of)?)).await.map_err(|e| e.to_string())
            }
            Err(trouble) => Err(trouble.to_string()),
        };
        if let Err(why) = shown {
            tracing::warn!(name, why, "earlier work can't be shown to its next attempt");
        }
    }

    fn context(&self) -> Option<String> {
        match &self.stored.assign.what {
            What::Work(work) => Some(work.context.clone()),
            What::Check { .. } => None,
        }
    }

    fn environment(&self, ports: Option<&Ports>) -> BTreeMap<String, OsString> {
        let assign = &self.stored.assign;
        let (mut set, pass) = match &self.performer {
            Performer::Employee { exec, .. } => (exec.env.clone(), exec.pass_env.clone()),
            Performer::Check => Default::default(),
        };
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let task = assign.key.task.as_ref().map_or("", |task| task.as_str());
        let attempt = match assign.key.check {
            Some(check) => format!("{}.c{check}", assign.key.attempt),
            None => assign.key.attempt.to_string(),
        };
        let mut put = |name: &str, value: String| set.insert(name.to_owned(), value);
        put("ENSEMBLE_RUN", assign.key.run.to_string());
        put("ENSEMBLE_TASK", task.to_owned());
        put("ENSEMBLE_ATTEMPT", attempt);
        put("ENSEMBLE_WORKTREE", text(self.folder.work()));
        put("HOME", text(self.folder.file("home")));
        put("TMPDIR", text(self.folder.file("tmp")));
        if !assign.traceparent.is_empty() {
            put("TRACEPARENT", assign.traceparent.clone());
        }
        if let Some(ports) = ports {
            put("ENSEMBLE_PORTS", ports.to_string());
        }
        // The prompt and the result have their names from the back end.
        if self.context().is_some() {
            put("ENSEMBLE_CONTEXT_FILE", text(self.folder.file("context.json")));
            put("ENSEMBLE_CHECKPOINT_FILE", text(self.folder.file("checkpoint")));
            put("ENSEMBLE_INBOX", text(self.folder.file("inbox")));
        }
        environment(ALLOWED, &set, &pass, |name| std::env::var_os(name))
    }
}

fn furnish(folder: &Folder, context: Option<&str>) -> Result<(), Error> {
    let inbox = context.map(|_| "inbox");
    for name in ["home", "tmp"].into_iter().chain(inbox) {
        let path = folder.file(name);
        fs::create_dir_all(&path).doing_to("make the folder", path)?;
    }
    if let Some(context) = context {
        let path = folder.file("context.json");
        fs::write(&path, context).doing_to("write", path)?;
    }
    Ok(())
}
