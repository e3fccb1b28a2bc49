//! The client of a coordinator, over any channel: an in-memory pipe, a Unix socket, later a network.
//! Each call says what it was about when it fails; what is done about it is the caller's.

use std::{
    io::{self, Read, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use ensemble_core::{
    ids::{CommitId, Epoch, RepositoryId, RunId, Seq, TaskId},
    run::{Entry, Fact},
};
use ensemble_proto::{
    CHUNK, Chunks, MESSAGE_LIMIT,
    door::{Way, open},
    v1::{
        Event, FetchRequest, KnownRequest, PushChunk, PushHeader, Ref, RetryRequest, StopRequest,
        SubmitRequest, WatchRequest, coordinator_client::CoordinatorClient,
        repository_client::RepositoryClient,
    },
};
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming, transport::Endpoint};

use crate::error::{Error, Said};

/// Longest wait for a connection and for the answer to a small request.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longest wait for a whole pack.
const PACK_PATIENCE: Duration = Duration::from_secs(60 * 60);

/// Chunks between the disk and the wire: 1 MiB.
const CHUNKS: usize = 4;

/// A client of a coordinator.
#[derive(Clone, Debug)]
pub struct Client {
    way: Way,
}

impl Client {
    /// A client over this connection.
    #[must_use]
    pub fn new(way: Way) -> Self {
        Self { way }
    }

    /// A client of the process that listens at a Unix socket.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when nobody answers there.
    pub async fn of_socket(socket: &Path) -> Result<Self, Error> {
        let path = socket.to_owned();
        let connect = tower::service_fn(move |_| {
            let path = path.clone();
            async move { tokio::net::UnixStream::connect(path).await.map(TokioIo::new) }
        });
        let endpoint = Endpoint::from_static("http://owner").connect_timeout(PATIENCE);
        let channel = endpoint.connect_with_connector(connect).await;
        channel
            .map(|channel| Self::new(open(channel)))
            .map_err(|_| Error::Unreachable { socket: socket.to_owned() })
    }

    fn coordinator(&self) -> CoordinatorClient<Way> {
        CoordinatorClient::new(self.way.clone())
            .max_decoding_message_size(MESSAGE_LIMIT)
            .max_encoding_message_size(MESSAGE_LIMIT)
    }

    fn repository(&self) -> RepositoryClient<Way> {
        RepositoryClient::new(self.way.clone()).max_decoding_message_size(4 * CHUNK)
    }

    /// Hands in a run. Repeating it returns the same run.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub async fn submit(&self, request: SubmitRequest) -> Result<(), Error> {
        within(PATIENCE, self.coordinator().submit(request)).await.said("hand in the run")?;
        Ok(())
    }

    /// Stops a run or a task; where the fact stands.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub async fn stop(&self, run: RunId, task: Option<&TaskId>) -> Result<Seq, Error> {
        let request = StopRequest { run: run.to_string(), task: task.map(ToString::to_string) };
        let answer = within(PATIENCE, self.coordinator().stop(request)).await.said("stop")?;
        Ok(Seq(answer.into_inner().seq))
    }

    /// Opens a task, or all that can be, for another try; where the fact stands.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub async fn retry(&self, run: RunId, task: Option<&TaskId>, prompt: Option<&str>) -> Result<Seq, Error> {
        let (task, prompt) = (task.map(ToString::to_string), prompt.map(str::to_owned));
        let request = RetryRequest { run: run.to_string(), task, prompt };
        let answer = within(PATIENCE, self.coordinator().retry(request)).await.said("try again")?;
        Ok(Seq(answer.into_inner().seq))
    }

    /// The facts of a run beyond `after`, then as they are journalled.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub async fn watch(&self, run: RunId, after: Seq) -> Result<Streaming<Event>, Error> {
        let request = WatchRequest { run: run.to_string(), after: after.0 };
        Ok(within(PATIENCE, self.coordinator().watch(request)).await.said("watch the run")?.into_inner())
    }

    /// Brings commits with their history to the coordinator's repository, which keeps them under
    /// `refs`. `recent` are commits that it may have already; `pack` writes what it lacks, given
    /// those that it has.
    ///
    /// # Errors
    /// [`Error::Call`], and those of `pack`.
    pub async fn push(
        &self,
        repository: &RepositoryId,
        refs: Vec<(String, CommitId)>,
        recent: &[CommitId],
        pack: impl FnOnce(&[CommitId], &mut dyn Write) -> Result<(), ensemble_workspace::Error> + Send + 'static,
    ) -> Result<(), Error> {
        let mut client = self.repository();
        let commits = recent.iter().map(ToString::to_string).collect();
        let request = KnownRequest { repository: repository.to_string(), commits };
        let known = within(PATIENCE, client.known(request)).await.said("ask what is there already")?;
        let known: Vec<CommitId> =
            known.into_inner().commits.iter().filter_map(|id| CommitId::new(id).ok()).collect();
        let refs = refs.into_iter().map(|(name, id)| Ref { name, commit: id.to_string() }).collect();
        let header = PushHeader { repository: repository.to_string(), refs, epoch: Epoch(0).0 };
        let (sender, receiver) = mpsc::channel(CHUNKS);
        let _ = sender.send(PushChunk { header: Some(header), data: Vec::new() }).await;
        let writing = tokio::task::spawn_blocking(move || {
            let mut out = Chunks::new(|data| {
                let sent = sender.blocking_send(PushChunk { header: None, data });
                sent.map_err(|_| io::Error::other("the coordinator broke off"))
            });
            pack(&known, &mut out)?;
            // A coordinator that broke off says why in its answer.
            let _ = out.flush();
            Ok(())
        });
        let answer = within(PACK_PATIENCE, client.push(ReceiverStream::new(receiver))).await;
        let written: Result<(), ensemble_workspace::Error> = writing.await.map_err(Error::broken)?;
        match (written, answer) {
            // The other side broke off first: its word says more than the failed write.
            (Err(ensemble_workspace::Error::Io { .. }), Err(status)) => Err(status).said("send the commits"),
            (Err(error), _) => Err(error.into()),
            (Ok(()), answer) => answer.map(drop).said("send the commits"),
        }
    }

    /// Fetches `want` with all that belongs to it and not to `have`, as a pack in a file of `folder`.
    ///
    /// # Errors
    /// [`Error::Call`], [`Error::Io`].
    pub async fn fetch(
        &self,
        repository: &RepositoryId,
        want: &CommitId,
        have: &[CommitId],
        folder: PathBuf,
    ) -> Result<impl Read + Send + use<>, Error> {
        let failed = |source| Error::Io { doing: "keep a pack in", path: folder.clone(), source };
        let request = FetchRequest {
            repository: repository.to_string(),
            want: vec![want.to_string()],
            have: have.iter().map(ToString::to_string).collect(),
        };
        let mut client = self.repository();
        let mut stream = within(PATIENCE, client.fetch(request)).await.said("fetch the result")?.into_inner();
        let mut file = tokio::fs::File::from_std(tempfile::tempfile_in(&folder).map_err(failed)?);
        while let Some(chunk) = within(PATIENCE, stream.message()).await.said("fetch the result")? {
            tokio::io::AsyncWriteExt::write_all(&mut file, &chunk.data).await.map_err(failed)?;
        }
        tokio::io::AsyncSeekExt::rewind(&mut file).await.map_err(failed)?;
        Ok(io::BufReader::new(file.into_std().await))
    }
}

/// The fact that an event carries.
///
/// # Errors
/// [`Error::Fact`] when this version can't read it.
pub fn entry(run: RunId, event: Event) -> Result<Entry, Error> {
    let fact: Fact = serde_json::from_str(&event.body).map_err(|error| Error::Fact {
        run,
        seq: event.seq,
        why: error.to_string(),
    })?;
    Ok(Entry { seq: Seq(event.seq), epoch: Epoch(event.epoch), time_ms: event.time_ms, fact })
}

async fn within<T>(limit: Duration, call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => answer,
        Err(_) => Err(Status::deadline_exceeded("no answer in time")),
    }
}
