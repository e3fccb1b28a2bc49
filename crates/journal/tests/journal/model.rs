//! Random interleavings of two owners against a model that fits on a page.

use std::sync::{
    LazyLock,
    atomic::{AtomicU64, Ordering},
};

use ensemble_core::ids::{Epoch, RunId, Seq};
use ensemble_journal::{Error, Journal, Stream};
use proptest::prelude::*;

use crate::{bodies, facts};

/// What one owner does: with what it last heard, or with a number that is off by one.
#[derive(Clone, Debug)]
enum Step {
    Claim { off: bool },
    Append { facts: usize, epoch_off: bool, after_off: bool },
    Reload,
}

fn step() -> impl Strategy<Value = (usize, Step)> {
    let step = prop_oneof![
        2 => prop::bool::weighted(0.2).prop_map(|off| Step::Claim { off }),
        5 => (0..4_usize, prop::bool::weighted(0.1), prop::bool::weighted(0.1))
            .prop_map(|(facts, epoch_off, after_off)| Step::Append { facts, epoch_off, after_off }),
        2 => Just(Step::Reload),
    ];
    (0..2_usize, step)
}

/// What must be stored.
#[derive(Default)]
struct Model {
    epoch: Epoch,
    bodies: Vec<String>,
}

impl Model {
    fn last(&self) -> Seq {
        Seq(self.bodies.len() as u64)
    }
}

/// What an owner believes.
#[derive(Clone, Copy, Default)]
struct Belief {
    epoch: Epoch,
    last: Seq,
}

async fn perform(journal: &Journal, stream: &Stream, belief: &mut Belief, model: &mut Model, step: Step) {
    match step {
        Step::Claim { off } => {
            let read = Epoch(belief.epoch.0 + u64::from(off));
            let answer = journal.claim(stream, read).await;
            if read == model.epoch {
                model.epoch = read.next();
                belief.epoch = answer.unwrap();
                assert_eq!(belief.epoch, model.epoch);
            } else {
                assert!(matches!(answer, Err(Error::Fenced { current, .. }) if current == model.epoch));
            }
        }
        Step::Append { facts: count, epoch_off, after_off } => {
            let epoch = Epoch(belief.epoch.0 + u64::from(epoch_off));
            let after = Seq(belief.last.0 + u64::from(after_off));
            let new: Vec<_> = (0..count).map(|n| format!("{epoch}/{after}/{n}")).collect();
            let batch = facts(&new.iter().map(String::as_str).collect::<Vec<_>>());
            let answer = journal.append(stream, epoch, after, batch).await;
            if epoch != model.epoch || epoch == Epoch(0) {
                assert!(matches!(answer, Err(Error::Fenced { current, .. }) if current == model.epoch));
            } else if after != model.last() {
                assert!(matches!(answer, Err(Error::OutOfSequence { at, .. }) if at == model.last()));
            } else {
                model.bodies.extend(new);
                belief.last = answer.unwrap();
                assert_eq!(belief.last, model.last());
            }
        }
        Step::Reload => {
            belief.epoch = journal.epoch(stream).await.unwrap();
            belief.last = journal.last_seq(stream).await.unwrap();
            assert_eq!((belief.epoch, belief.last), (model.epoch, model.last()));
        }
    }
}

struct World {
    runtime: tokio::runtime::Runtime,
    owners: [Journal; 2],
    streams: AtomicU64,
    _dir: tempfile::TempDir,
}

/// One directory for all cases, each with a stream of its own.
static WORLD: LazyLock<World> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    World {
        runtime: tokio::runtime::Runtime::new().unwrap(),
        owners: [Journal::open(dir.path()).unwrap(), Journal::open(dir.path()).unwrap()],
        streams: AtomicU64::new(0),
        _dir: dir,
    }
});

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn two_owners_see_what_the_model_sees(steps in prop::collection::vec(step(), 1..40)) {
        let stream = Stream::Run(RunId::from_parts(WORLD.streams.fetch_add(1, Ordering::Relaxed), 0));
        let mut beliefs = [Belief::default(); 2];
        let mut model = Model::default();
        WORLD.runtime.block_on(async {
            for (owner, step) in steps {
                perform(&WORLD.owners[owner], &stream, &mut beliefs[owner], &mut model, step).await;
            }
            let rows = WORLD.owners[0].read(&stream, Seq(0), usize::MAX).await.unwrap();
            assert_eq!(bodies(&rows), model.bodies);
            assert!(rows.is_sorted_by_key(|row| row.epoch));
            assert!(rows.iter().zip(1..).all(|(row, seq)| row.seq == Seq(seq)));
        });
    }
}
