//! Every fault point of the crate, before its effect and after it: the call fails, and repeating it
//! ends where an undisturbed call would have.

#![allow(clippy::unwrap_used, reason = "a failed set-up fails the test")]

use ensemble_core::ids::CommitId;
use ensemble_workspace::{CaptureNote, Error, Expect, FAULT_POINTS, Merge, MergeNote, Repository, Worktree};

struct Stage {
    folder: tempfile::TempDir,
    from: Repository,
    to: Repository,
    base: CommitId,
    ours: CommitId,
    theirs: CommitId,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let from = Repository::open_or_create(folder.path().join("from")).unwrap();
        let to = Repository::open_or_create(folder.path().join("to")).unwrap();
        let base = from.empty_root().unwrap();
        let child = |name: &str| {
            let worktree = Worktree::create(&from, folder.path().join(name), &base).unwrap();
            std::fs::write(worktree.path().join(name), name).unwrap();
            worktree.capture(&from, &base, &capture_note()).unwrap().commit.unwrap()
        };
        let (ours, theirs) = (child("ours"), child("theirs"));
        Self { from, to, base, ours, theirs, folder }
    }

    /// The call that passes `point`, and what there is to see of its effect.
    fn call(&self, point: &str) -> Result<String, Error> {
        match point {
            "workspace.capture" => {
                let worktree = Worktree::open(self.folder.path().join("ours"))?;
                let capture = worktree.capture(&self.from, &self.base, &capture_note())?;
                Ok(format!("{:?}", capture.commit))
            }
            "workspace.merge" => {
                match self.from.merge(&self.ours, &self.theirs, &self.base, &merge_note())? {
                    Merge::Clean { commit, .. } => Ok(commit.to_string()),
                    conflict => panic!("{conflict:?}"),
                }
            }
            "workspace.ref" => {
                self.from.update_ref("refs/heads/x", &self.ours, &Expect::Absent)?;
                Ok(format!("{:?}", self.from.refs("refs/")?))
            }
            "workspace.pack" => {
                let mut pack = Vec::new();
                self.from.write_pack(std::slice::from_ref(&self.ours), &[], &mut pack, u64::MAX)?;
                self.to.receive_pack(&mut pack.as_slice(), std::slice::from_ref(&self.ours), u64::MAX)?;
                Ok(format!("{:?}", self.to.list_files(&self.ours)?))
            }
            "workspace.checkout" => {
                let path = self.folder.path().join("new");
                Worktree::discard(&path)?;
                let worktree = Worktree::create(&self.from, &path, &self.ours)?;
                Ok(format!("{:?}", worktree.read_back("ours", 100)?))
            }
            "workspace.recycle" => {
                let path = self.folder.path().join("ours");
                let worktree = match Worktree::recycle(&self.from, &path, &self.theirs, false) {
                    Err(Error::Unfinished { .. }) => {
                        Worktree::discard(&path)?;
                        Worktree::create(&self.from, &path, &self.theirs)?
                    }
                    done => done?,
                };
                Ok(format!("{:?} {:?}", worktree.read_back("ours", 100)?, worktree.read_back("theirs", 100)?))
            }
            other => panic!("no call passes {other}"),
        }
    }
}

fn capture_note() -> CaptureNote {
    CaptureNote {
        author: "back".into(),
        message: "Work".into(),
        trailers: vec![],
        time_ms: 1_796_000_000_000,
        outputs: vec![],
    }
}

fn merge_note() -> MergeNote {
    MergeNote {
        subject: "Merge".into(),
        body: String::new(),
        trailers: vec![],
        author_name: "ensemble".into(),
        author_email: "ensemble@localhost".into(),
        time_ms: 1_796_000_000_000,
    }
}

#[test]
fn a_call_that_failed_at_any_point_can_be_repeated() {
    let undisturbed = Stage::new();
    for point in FAULT_POINTS {
        let expected = undisturbed.call(point).unwrap();
        for name in [(*point).to_owned(), format!("{point}.done")] {
            let stage = Stage::new();
            let scenario = fail::FailScenario::setup();
            fail::cfg(&name, "1*return->off").unwrap();
            let failed = stage.call(point);
            assert!(matches!(failed, Err(Error::Injected(at)) if at == name), "{name}: {failed:?}");
            assert_eq!(stage.call(point).unwrap(), expected, "{name}");
            scenario.teardown();
        }
    }
}

#[test]
fn a_copy_whose_recycling_broke_off_half_way_is_never_taken_for_a_whole_one() {
    let stage = Stage::new();
    let scenario = fail::FailScenario::setup();
    fail::cfg("workspace.recycle", "1*off->1*return->off").unwrap();
    let path = stage.folder.path().join("ours");
    let recycle = || Worktree::recycle(&stage.from, &path, &stage.theirs, false);
    assert!(matches!(recycle(), Err(Error::Injected(_))));
    assert!(matches!(recycle(), Err(Error::Unfinished { .. })));
    scenario.teardown();
}
