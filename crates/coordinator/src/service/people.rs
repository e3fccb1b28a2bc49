//! What people and programs ask: submit, watch, stop, retry.

use std::{pin::Pin, time::Duration};

use ensemble_core::{
    ids::{RunId, Seq, TaskId},
    run::Fact,
    text::Text,
};
use ensemble_journal::{Row, Stream};
use ensemble_proto::v1;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::malformed;
use crate::{CoordinatorHandle, Error, Standing, submit::Submission};

/// Events that wait for a slow watcher.
const BUFFER: usize = 64;

/// Events read from the journal at a time.
const PAGE: usize = 256;

/// How long a watcher waits for news before it looks whether the run is still ours.
const LOOK: Duration = Duration::from_secs(1);

/// The service for people.
pub struct People(pub CoordinatorHandle);

#[tonic::async_trait]
impl v1::coordinator_server::Coordinator for People {
    async fn submit(
        &self,
        request: Request<v1::SubmitRequest>,
    ) -> Result<Response<v1::SubmitResponse>, Status> {
        let submission = Submission::of(request.into_inner())?;
        let run = submission.run;
        self.0.submit(submission).await?;
        let branch = ensemble_core::run::state::result_branch(run);
        Ok(Response::new(v1::SubmitResponse { run: run.to_string(), branch }))
    }

    type WatchStream = Pin<Box<dyn futures_util::Stream<Item = Result<v1::Event, Status>> + Send>>;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let request = request.into_inner();
        let run: RunId = request.run.parse().map_err(malformed)?;
        if matches!(self.0.standing(run).await?, Standing::Unknown) {
            return Err(Error::UnknownRun(run).into());
        }
        let (events, stream) = mpsc::channel(BUFFER);
        let handle = self.0.clone();
        tokio::spawn(async move {
            if let Err(status) = follow(&handle, run, Seq(request.after), &events).await {
                drop(events.send(Err(status)).await);
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn stop(&self, request: Request<v1::StopRequest>) -> Result<Response<v1::StopResponse>, Status> {
        let request = request.into_inner();
        let run = request.run.parse().map_err(malformed)?;
        let task = task(request.task)?;
        let seq = self.0.propose(run, Fact::StopRequested { task }).await?;
        Ok(Response::new(v1::StopResponse { seq: seq.0 }))
    }

    async fn retry(&self, request: Request<v1::RetryRequest>) -> Result<Response<v1::RetryResponse>, Status> {
        let request = request.into_inner();
        let run = request.run.parse().map_err(malformed)?;
        let task = task(request.task)?;
        let mut prompt = request.prompt.map(Text::from);
        if let Some(text) = &mut prompt {
            crate::run::spill(self.0.journal(), text).await?;
        }
        let seq = self.0.propose(run, Fact::Retried { task, prompt }).await?;
        Ok(Response::new(v1::RetryResponse { seq: seq.0 }))
    }
}

fn task(task: Option<String>) -> Result<Option<TaskId>, Status> {
    task.map(TaskId::new).transpose().map_err(malformed)
}

/// Sends the run's facts as they are stored, until the watcher leaves, the run is given up or the
/// process ends.
async fn follow(
    handle: &CoordinatorHandle,
    run: RunId,
    mut after: Seq,
    events: &mpsc::Sender<Result<v1::Event, Status>>,
) -> Result<(), Status> {
    let stream = Stream::Run(run);
    let closing = handle.closing();
    loop {
        let rows = handle.journal().read(&stream, after, PAGE).await.map_err(Error::from)?;
        let news = !rows.is_empty();
        for row in rows {
            after = row.seq;
            if events.send(Ok(event(row))).await.is_err() {
                return Ok(());
            }
        }
        if news {
            continue;
        }
        if *closing.borrow() {
            return Ok(());
        }
        match handle.standing(run).await? {
            Standing::GivenUp(why) => return Err(Status::aborted(why)),
            Standing::Unknown => return Ok(()),
            Standing::Live(_) | Standing::Loading => {}
        }
        handle.journal().wait_beyond(&stream, after, LOOK).await.map_err(Error::from)?;
    }
}

fn event(row: Row) -> v1::Event {
    v1::Event { seq: row.seq.0, epoch: row.epoch.0, time_ms: row.time_ms, kind: row.kind, body: row.body }
}
