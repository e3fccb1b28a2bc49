//! Bulk between a node and a coordinator: packs and logs, each on a connection of its own so that
//! frames of the link pass. Only the calls live here; when they are made, and what a failure means,
//! is the caller's.

use std::{future::Future, io, path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use ensemble_agent::LogReader;
use ensemble_core::{
    ids::{CommitId, Epoch, RepositoryId},
    link::AttemptKey,
};
use ensemble_proto::{
    Advice, CHUNK, Chunks, advice,
    door::Way,
    v1::{
        FetchRequest, KnownRequest, LogChunk, PushChunk, PushHeader, Ref,
        repository_client::RepositoryClient, workforce_client::WorkforceClient,
    },
};
use ensemble_workspace::Repository;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

/// Largest pack of an attempt, in bytes.
const PACK_LIMIT: u64 = 1024 * 1024 * 1024;
/// Chunks between the disk and the wire: 1 MiB.
const CHUNKS: usize = 4;
/// Longest wait for a connection, for the answer to a small question, and for the next chunk.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest wait for a whole pack: a gibibyte at a megabyte a second, with room.
const PACK_PATIENCE: Duration = Duration::from_secs(30 * 60);

/// A connection that is being made.
pub type Dialling = Pin<Box<dyn Future<Output = Result<Way, Unreached>> + Send>>;

/// Why there is no connection.
pub type Unreached = Box<dyn std::error::Error + Send + Sync>;

/// How connections to the coordinator are made; each call makes a new one.
#[derive(Clone)]
pub struct Dial(Arc<dyn Fn() -> Dialling + Send + Sync>);

impl Dial {
    /// Connections as `dial` makes them.
    pub fn new(dial: impl Fn() -> Dialling + Send + Sync + 'static) -> Self {
        Self(Arc::new(dial))
    }

    /// Makes one, for as long as it takes.
    pub(crate) fn make(&self) -> Dialling {
        (self.0)()
    }

    /// Makes one, within half a minute.
    pub(crate) async fn connect(&self) -> Result<Way, Trouble> {
        match tokio::time::timeout(PATIENCE, self.make()).await {
            Ok(Ok(channel)) => Ok(channel),
            Ok(Err(error)) => Err(Trouble::Passing(format!("can't reach the coordinator: {error}"))),
            Err(_) => Err(Trouble::Passing("the coordinator does not answer".to_owned())),
        }
    }
}

impl std::fmt::Debug for Dial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Dial")
    }
}

/// Why a transfer failed, by what helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Trouble {
    /// Trying again may help.
    #[error("{0}")]
    Passing(String),
    /// The coordinator is there and failed; trying again a few times may help.
    #[error("{0}")]
    Failing(String),
    /// Trying again gives the same.
    #[error("{0}")]
    Final(String),
}

impl From<Status> for Trouble {
    fn from(status: Status) -> Self {
        let text = format!("{}: {}", status.code().description(), status.message());
        match status.code() {
            // An owner that is being succeeded; its successor takes what it refused.
            Code::FailedPrecondition => Self::Passing(text),
            Code::Internal | Code::Unknown | Code::DataLoss => Self::Failing(text),
            _ if advice(&status) == Advice::Final => Self::Final(text),
            _ => Self::Passing(text),
        }
    }
}

impl From<ensemble_workspace::Error> for Trouble {
    fn from(error: ensemble_workspace::Error) -> Self {
        match error {
            ensemble_workspace::Error::TooLarge { .. } | ensemble_workspace::Error::NoSuchCommit { .. } => {
                Self::Final(error.to_string())
            }
            _ => Self::Failing(error.to_string()),
        }
    }
}

async fn client(dial: &Dial) -> Result<RepositoryClient<Way>, Trouble> {
    Ok(RepositoryClient::new(dial.connect().await?).max_decoding_message_size(4 * CHUNK))
}

/// Fetches `want` with what belongs to it into `mirror`, which has `have` already.
pub(crate) async fn fetch(
    dial: &Dial,
    mirror: Repository,
    repository: &RepositoryId,
    want: &CommitId,
    have: Vec<CommitId>,
) -> Result<(), Trouble> {
    let request = FetchRequest {
        repository: repository.to_string(),
        want: vec![want.to_string()],
        have: have.iter().map(ToString::to_string).collect(),
    };
    let mut client = client(dial).await?;
    let mut stream = within(client.fetch(request)).await?.into_inner();
    let (sender, mut receiver) = mpsc::channel::<Vec<u8>>(CHUNKS);
    let tips = vec![want.clone()];
    let receiving = tokio::task::spawn_blocking(move || {
        let mut input = ChunkReader { next: &mut receiver, chunk: io::Cursor::default(), whole: false };
        mirror.receive_pack(&mut input, &tips, PACK_LIMIT)
    });
    let feeding = async {
        while let Some(chunk) = within(stream.message()).await? {
            if sender.send(chunk.data).await.is_err() {
                return Ok(());
            }
        }
        // An empty chunk says that all is there: a stream that breaks is not an end.
        let _ = sender.send(Vec::new()).await;
        Ok(())
    };
    let fed: Result<(), Status> = feeding.await;
    drop(sender);
    let received = receiving.await.map_err(|error| Trouble::Passing(error.to_string()))?;
    fed?;
    Ok(received?)
}

/// Which of `commits` the coordinator has.
async fn known(
    client: &mut RepositoryClient<Way>,
    repository: &RepositoryId,
    commits: &[CommitId],
) -> Result<Vec<CommitId>, Trouble> {
    let commits = commits.iter().map(ToString::to_string).collect();
    let request = KnownRequest { repository: repository.to_string(), commits };
    let answer = within(client.known(request)).await?.into_inner();
    Ok(answer.commits.iter().filter_map(|commit| CommitId::new(commit).ok()).collect())
}

/// What is pushed, and where it goes.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    /// The repository.
    pub(crate) repository: RepositoryId,
    /// The attempt's commit.
    pub(crate) commit: CommitId,
    /// Its base, which the coordinator has.
    pub(crate) base: CommitId,
    /// The ref that shall hold it.
    pub(crate) name: String,
    /// Under which the run is owned.
    pub(crate) epoch: Epoch,
}

/// Brings a commit to the coordinator, under its ref. Doing it twice changes nothing.
pub(crate) async fn push(dial: &Dial, mirror: Repository, parcel: Parcel) -> Result<(), Trouble> {
    let mut client = client(dial).await?;
    let have = known(&mut client, &parcel.repository, std::slice::from_ref(&parcel.base)).await?;
    let (sender, receiver) = mpsc::channel(CHUNKS);
    let header = PushHeader {
        repository: parcel.repository.to_string(),
        refs: vec![Ref { name: parcel.name, commit: parcel.commit.to_string() }],
        epoch: parcel.epoch.0,
    };
    let _ = sender.send(PushChunk { header: Some(header), data: Vec::new() }).await;
    let writing = tokio::task::spawn_blocking(move || {
        let mut out = Chunks::new(|data| {
            let sent = sender.blocking_send(PushChunk { header: None, data });
            sent.map_err(|_| io::Error::other("the coordinator broke off"))
        });
        let written = mirror.write_pack(&[parcel.commit], &have, &mut out, PACK_LIMIT);
        let flushed = io::Write::flush(&mut out);
        written.map(|_| flushed.is_ok())
    });
    let answer = tokio::time::timeout(PACK_PATIENCE, client.push(ReceiverStream::new(receiver))).await;
    // What the pack says outweighs what the other side made of half of one.
    match writing.await {
        Ok(Err(error @ ensemble_workspace::Error::Io { .. })) => {
            answer.ok().transpose()?;
            Err(error.into())
        }
        Ok(Err(error)) => Err(error.into()),
        Err(error) => Err(Trouble::Passing(error.to_string())),
        Ok(Ok(_)) => match answer {
            Ok(answer) => Ok(answer.map(drop)?),
            Err(_) => Err(Trouble::Passing("the coordinator does not answer".to_owned())),
        },
    }
}

/// Follows a log that grows in `path` until `grown` is dropped, and then to its end; how long it is.
pub(crate) async fn push_log(
    dial: &Dial,
    key: &AttemptKey,
    path: PathBuf,
    grown: &mut tokio::sync::watch::Receiver<()>,
) -> Result<u64, Trouble> {
    let mut client = WorkforceClient::new(dial.connect().await?);
    let (sender, receiver) = mpsc::channel(CHUNKS);
    let call = client.push_log(ReceiverStream::new(receiver));
    let following = follow(key, path, grown, sender);
    let (answer, followed) = tokio::join!(call, following);
    // A call that the coordinator ended early says why.
    let receipt = answer?.into_inner();
    followed.map_err(|error| Trouble::Passing(error.to_string()))?;
    Ok(receipt.length)
}

/// Sends a log as it grows, as long as it is whole; the offsets are those of the coordinator's copy.
/// Of a longer one everything behind the beginning is sent again when it has ended: the gap, the end.
async fn follow(
    key: &AttemptKey,
    path: PathBuf,
    grown: &mut tokio::sync::watch::Receiver<()>,
    sender: mpsc::Sender<LogChunk>,
) -> io::Result<()> {
    /// Bytes that come meanwhile travel together.
    const GATHER: Duration = Duration::from_millis(100);
    let mut key = Some(ensemble_proto::wire_key(key));
    let (mut offset, mut whole) = (0, true);
    loop {
        let ended = grown.has_changed().is_err();
        grown.borrow_and_update();
        // Opened anew: the log is made by whoever writes first.
        while whole && let Some((data, next)) = read_log(path.clone(), offset).await? {
            whole = next <= LogReader::KEPT && next - offset == data.len() as u64;
            if whole && sender.send(LogChunk { key: key.take(), offset, data }).await.is_err() {
                return Ok(());
            }
            offset = next;
        }
        if ended {
            break;
        }
        let more = async {
            if grown.changed().await.is_ok() {
                // The end is not waited for.
                let _ = tokio::time::timeout(GATHER, async { while grown.changed().await.is_ok() {} }).await;
            }
        };
        tokio::select! {
            () = more => {}
            () = sender.closed() => return Ok(()),
        }
    }
    let (mut from, mut place) = (LogReader::HEAD, LogReader::HEAD);
    while !whole && let Some((data, next)) = read_log(path.clone(), from).await? {
        let length = data.len() as u64;
        if sender.send(LogChunk { key: key.take(), offset: place, data }).await.is_err() {
            return Ok(());
        }
        (from, place) = (next, place + length);
    }
    if key.is_some() {
        let _ = sender.send(LogChunk { key, offset, data: Vec::new() }).await;
    }
    Ok(())
}

async fn read_log(path: PathBuf, offset: u64) -> io::Result<Option<(Vec<u8>, u64)>> {
    tokio::task::spawn_blocking(move || {
        let read = LogReader::open(&path).and_then(|log| log.read_from(offset, CHUNK));
        match read {
            Ok((data, next)) => Ok((next > offset).then_some((data, next))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    })
    .await
    .map_err(io::Error::other)?
}

async fn within<T>(call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    match tokio::time::timeout(PATIENCE, call).await {
        Ok(answer) => answer,
        Err(_) => Err(Status::unavailable("the coordinator does not answer")),
    }
}

/// Chunks as they come, read by somebody who waits; an empty one is the end.
struct ChunkReader<'a> {
    next: &'a mut mpsc::Receiver<Vec<u8>>,
    chunk: io::Cursor<Vec<u8>>,
    whole: bool,
}

impl io::Read for ChunkReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.chunk.read(buffer)?;
            if count > 0 || buffer.is_empty() || self.whole {
                return Ok(count);
            }
            let next = self.next.blocking_recv();
            let next = next.ok_or_else(|| io::Error::other("the stream broke off"))?;
            self.whole = next.is_empty();
            self.chunk = io::Cursor::new(next);
        }
    }
}
