//! Moving a branch of the user's, which happens only by compare-and-swap and never to a branch that
//! any working tree has checked out.

use std::{
    fs,
    path::{Path, PathBuf},
};

use ensemble_core::ids::CommitId;

use super::{UserRepository, is_branch_name};
use crate::{
    error::{Doing, DoingTo, Error},
    refs::{self, Expect},
    tree::{commit, oid},
};

/// What became of the user's branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BranchMove {
    /// It points at the result now.
    Moved,
    /// It did not exist and was made.
    Created,
    /// A working tree has it checked out, or is in the middle of something with it: left alone.
    CheckedOut {
        /// The working tree's git directory.
        by: PathBuf,
    },
    /// It is no longer where the run started from: left alone.
    MovedSince {
        /// Where it is now.
        now: CommitId,
    },
}

/// How a branch stands, for a word before anything is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It does not exist, and can be made.
    Absent,
    /// It points here, and no working tree has it.
    At(CommitId),
    /// A working tree has it checked out, or is in the middle of something with it.
    CheckedOut,
}

impl UserRepository {
    /// How `branch` stands now, whether it exists or not.
    ///
    /// # Errors
    /// [`Error::BadName`] when there can be no branch of this name.
    pub fn standing(&self, branch: &str) -> Result<Standing, Error> {
        let repo = self.git()?;
        let name = format!("refs/heads/{branch}");
        if !is_branch_name(branch) {
            return Err(Error::BadName {
                name: branch.to_owned(),
                why: "no branch can be called so".to_owned(),
            });
        }
        refs::check_name(&repo, &name)?;
        if holder(&repo, &name)?.is_some() {
            return Ok(Standing::CheckedOut);
        }
        Ok(refs::target(&repo, &name)?.map_or(Standing::Absent, Standing::At))
    }

    /// The branches that hold `id`, local ones by their short names, others as `origin/main`, in order.
    /// None when the commit is not here.
    ///
    /// # Errors
    /// When the repository can't be read.
    pub fn branches_with(&self, id: &CommitId) -> Result<Vec<String>, Error> {
        let repo = self.git()?;
        let id = oid(id)?;
        if repo.find_commit(id).is_err() {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for prefix in ["refs/heads/", "refs/remotes/"] {
            for (name, tip) in refs::list(&repo, prefix)? {
                let tip = oid(&tip)?;
                if tip == id || repo.graph_descendant_of(tip, id).doing("walk the history")? {
                    found.push(name[prefix.len()..].to_owned());
                }
            }
        }
        Ok(found)
    }

    /// Moves `branch` from `base`, where the run started, to `commit`, which must be here already
    /// and follow `base`. Repeating it is safe.
    ///
    /// # Errors
    /// [`Error::NoSuchCommit`], [`Error::NotABase`] when `commit` does not follow `base`,
    /// [`Error::BadName`], [`Error::ReadOnly`], [`Error::Locked`].
    pub fn move_branch(&self, branch: &str, id: &CommitId, base: &CommitId) -> Result<BranchMove, Error> {
        let repo = self.git()?;
        let name = format!("refs/heads/{branch}");
        let result = commit(&repo, id)?.id();
        let now = refs::target(&repo, &name)?;
        if now.as_ref() == Some(id) {
            return Ok(BranchMove::Moved);
        }
        if let Some(by) = holder(&repo, &name)? {
            return Ok(BranchMove::CheckedOut { by });
        }
        let (expect, done) = match now {
            None => (Expect::Absent, BranchMove::Created),
            Some(now) if now != *base => return Ok(BranchMove::MovedSince { now }),
            Some(_) => (Expect::At(base.clone()), BranchMove::Moved),
        };
        if done == BranchMove::Moved
            && !repo.graph_descendant_of(result, oid(base)?).doing("walk the history")?
        {
            return Err(Error::NotABase { base: base.clone(), ours: base.clone(), theirs: id.clone() });
        }
        match refs::update(&repo, &name, id, &expect) {
            Ok(()) => Ok(done),
            Err(Error::Moved { now: Some(now), .. }) => Ok(BranchMove::MovedSince { now }),
            Err(error) => Err(self.read_only(error)),
        }
    }
}

/// The git directory of a working tree that has the branch `name` checked out, or rebases or
/// bisects it.
fn holder(repo: &git2::Repository, name: &str) -> Result<Option<PathBuf>, Error> {
    let common = repo.commondir();
    let mut homes = Vec::new();
    // Only a bare repository's HEAD has no files beside it; a linked tree may open a bare one.
    let bare = repo.config().and_then(|config| config.get_bool("core.bare")).unwrap_or(false);
    if !bare {
        homes.push(common.to_owned());
    }
    let linked = common.join("worktrees");
    match fs::read_dir(&linked) {
        Ok(entries) => {
            for entry in entries {
                homes.push(entry.doing_to("read", &linked)?.path());
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).doing_to("read", linked),
    }
    Ok(homes.into_iter().find(|home| holds(home, name)))
}

fn holds(home: &Path, name: &str) -> bool {
    let short = name.strip_prefix("refs/heads/").unwrap_or(name);
    ["HEAD", "rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START"].iter().any(|file| {
        let text = fs::read_to_string(home.join(file)).unwrap_or_default();
        let at = text.trim();
        at.strip_prefix("ref:").map_or(at, str::trim) == name || (*file == "BISECT_START" && at == short)
    })
}
