//! What becomes of attempts after their agents: those that a dead process or a failed actor left
//! are taken in, commits are brought to the coordinator, and what was acknowledged is cleared away.
//! Tasks that the node starts; when, is the node's.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ensemble_core::{
    ids::Epoch,
    link::AttemptKey,
    message::{Ended, How},
    outcome::Ending,
    run::fact::LossCause,
};
use ensemble_workspace::{Expect, Worktree};
use tokio::sync::Semaphore;

use crate::{
    Dial, Error, Home,
    attempt::{blocking, capture_leftover, commit_of, ref_of},
    fault,
    folder::{Folder, Stored},
    mirrors::Mirrors,
    outbox::OutboxHandle,
    pool::{Owner, Pool},
    restart::backoff,
    store::Kept,
    transfer::{self, Parcel, Trouble},
};

/// How long an attempt's keeper may take to end what is left of it.
const VANISH: Duration = Duration::from_secs(10);
/// Pauses between two tries to bring a commit over.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(15)];
/// Tries to clear away an attempt after its receipt.
const CLEARINGS: u32 = 3;
/// Tries that a coordinator may answer with a failure of its own.
const FAILURES: u32 = 8;

/// Takes in an attempt that has a directory and no agent any more; whether its end needs no push.
pub(crate) async fn take_in(
    outbox: &OutboxHandle,
    mirrors: &Mirrors,
    folder: &Folder,
    stored: &Stored,
    cause: LossCause,
    reason: &str,
) -> bool {
    let quiet = ensemble_agent::wait_until_free(&folder.lock(), Instant::now() + VANISH).await;
    let (capture, reason) = if quiet {
        (capture_leftover(mirrors, folder, stored).await, reason.to_owned())
    } else {
        (None, format!("{reason}; processes of its agent are still there, so its files are left alone"))
    };
    let pushed = capture.is_none();
    let how = How::Lost { cause, capture, reason };
    outbox.keep(Ended { key: stored.assign.key.clone(), how }, pushed).await;
    pushed
}

/// Clears away a directory in which nothing was begun.
pub(crate) async fn clear(folder: Folder) {
    let quiet = ensemble_agent::wait_until_free(&folder.lock(), Instant::now() + VANISH).await;
    if quiet && let Err(error) = blocking(move || folder.remove()).await {
        tracing::warn!(%error, "an empty attempt is left behind");
    }
}

/// Brings the commit of an end to the coordinator, for as long as it takes. Returns when the end
/// can be told.
pub(crate) async fn deliver(
    home: Arc<Home>,
    dial: Dial,
    outbox: OutboxHandle,
    pushes: Arc<Semaphore>,
    (key, epoch): (AttemptKey, Epoch),
) {
    let mut failing = 0;
    for tries in 0.. {
        let trouble = {
            // A pack waits for its turn, and gives it away while it waits for the coordinator.
            let Ok(_turn) = pushes.acquire().await else { return };
            match try_to_deliver(&home, &dial, &outbox, (&key, epoch)).await {
                Ok(()) => return,
                Err(trouble) => trouble,
            }
        };
        failing += u32::from(matches!(trouble, Trouble::Failing(_)));
        if matches!(trouble, Trouble::Final(_)) || failing >= FAILURES {
            return give_up(&outbox, &key, &trouble).await;
        }
        tracing::debug!(token = %key.token, %trouble, "a commit did not arrive; trying again");
        tokio::time::sleep(backoff(tries, PAUSES[0], PAUSES[1])).await;
    }
}

async fn try_to_deliver(
    home: &Home,
    dial: &Dial,
    outbox: &OutboxHandle,
    (key, epoch): (&AttemptKey, Epoch),
) -> Result<(), Trouble> {
    let kept = outbox.find(key).await.map_err(|error| Trouble::Passing(error.to_string()))?;
    let Some(kept) = kept.filter(|kept| !kept.pushed) else { return Ok(()) };
    let (Some(commit), Some(name)) = (commit_of(&kept.ended.how).cloned(), ref_of(key)) else {
        outbox.amend(&Kept { pushed: true, ..kept }).await;
        return Ok(());
    };
    let (folder, mirrors) =
        home.find(key).ok_or_else(|| Trouble::Final("its directory is gone".to_owned()))?;
    let stored = blocking(move || folder.read()).await;
    let stored = stored.map_err(|error| Trouble::Failing(error.to_string()))?;
    let assign = stored.ok_or_else(|| Trouble::Final("its assignment is gone".to_owned()))?.assign;
    let mirror = mirrors.reader(&assign.repository).await?;
    let parcel = Parcel { repository: assign.repository, commit, base: assign.base, name, epoch };
    transfer::push(dial, mirror, parcel).await?;
    outbox.amend(&Kept { pushed: true, ..kept }).await;
    Ok(())
}

/// A commit that the coordinator never takes: without it the end says something else.
async fn give_up(outbox: &OutboxHandle, key: &AttemptKey, trouble: &Trouble) {
    tracing::warn!(token = %key.token, %trouble, "the coordinator does not take a commit");
    let Ok(Some(mut kept)) = outbox.find(key).await else { return };
    let why = format!("the coordinator did not take its commit: {trouble}");
    kept.pushed = true;
    match &mut kept.ended.how {
        How::Report(report) if report.outcome.ending != Ending::Done => {
            report.delivery = None;
            report.left_out.push(why);
        }
        how => *how = How::Lost { cause: LossCause::Environment, capture: None, reason: why },
    }
    outbox.amend(&kept).await;
}

/// Forgets an attempt whose end was acknowledged; whether that was done. What could not be done now
/// is made good by the next receipt, which comes after the next claim.
pub(crate) async fn settle(home: &Home, pool: &Pool, outbox: &OutboxHandle, key: &AttemptKey) -> bool {
    for tries in 0..CLEARINGS {
        match forget(home, pool, outbox, key).await {
            Ok(()) => return true,
            Err(error) => tracing::warn!(%error, token = %key.token, "an attempt is not cleared away yet"),
        }
        tokio::time::sleep(backoff(tries, PAUSES[0], PAUSES[1])).await;
    }
    false
}

/// Clears away an attempt, once its commit is proven to be safe (S38). The outbox forgets it last,
/// so that an interruption leaves the end, and with it all that is needed to do this again.
async fn forget(home: &Home, pool: &Pool, outbox: &OutboxHandle, key: &AttemptKey) -> Result<(), Error> {
    fault!("node.receipt");
    let kept = outbox.find(key).await?;
    if let (Some(kept), Some((folder, mirrors))) = (&kept, home.find(key)) {
        let lock = folder.lock();
        if !ensemble_agent::wait_until_free(&lock, Instant::now() + VANISH).await {
            return Err(Error::Gone("processes of its agent are still there"));
        }
        let reader = folder.clone();
        let stored = blocking(move || reader.read()).await?;
        if let Some(stored) = &stored {
            prove(&mirrors, stored, &kept.ended).await?;
        }
        let pool = pool.clone();
        blocking(move || {
            if let (Ok(worktree), Some(Stored { assign, .. })) = (Worktree::open(folder.work()), stored) {
                pool.put(worktree, &assign.repository, &Owner::of(&assign.what))?;
            }
            folder.remove()
        })
        .await?;
    }
    outbox.forget(key).await?;
    fault!("node.receipt.done");
    Ok(())
}

/// Proves that an end's commit is kept by its ref, which is set again where it is not.
async fn prove(mirrors: &Mirrors, stored: &Stored, ended: &Ended) -> Result<(), Error> {
    let (Some(commit), Some(name)) = (commit_of(&ended.how).cloned(), ref_of(&ended.key)) else {
        return Ok(());
    };
    let proven = mirrors.with(&stored.assign.repository, move |mirror| {
        if mirror.ref_target(&name)?.as_ref() == Some(&commit) {
            return Ok(());
        }
        mirror.update_ref(&name, &commit, &Expect::Any)
    });
    proven.await.map_err(|trouble| {
        tracing::warn!(%trouble, "a commit is not proven to be safe; its working copy stays");
        Error::Gone("the commit in its mirror")
    })
}
