//! How git objects travel: packs in chunks, both ways.

use std::pin::Pin;

use ensemble_core::ids::{CommitId, Malformed, RepositoryId};
use ensemble_proto::{Chunks, v1};
use tokio::{io::AsyncWriteExt, sync::mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::malformed;
use crate::{
    CoordinatorHandle, Error,
    repository::{PACK_LIMIT, Pushed},
};

/// Chunks that wait for a slow reader.
const BUFFER: usize = 8;

/// Most commits in one question.
const QUESTIONS: usize = 10_000;

/// Under which refs others may put commits.
const REFS: &str = "refs/ensemble/";

/// The service for packs.
pub struct Packs(pub CoordinatorHandle);

#[tonic::async_trait]
impl v1::repository_server::Repository for Packs {
    async fn known(&self, request: Request<v1::KnownRequest>) -> Result<Response<v1::KnownResponse>, Status> {
        let request = request.into_inner();
        let repository = self.0.repository(&id(&request.repository)?).await?;
        let commits = commits(&request.commits)?;
        let known = repository.known(commits).await?;
        Ok(Response::new(v1::KnownResponse { commits: known.iter().map(ToString::to_string).collect() }))
    }

    async fn push(
        &self,
        request: Request<Streaming<v1::PushChunk>>,
    ) -> Result<Response<v1::PushResponse>, Status> {
        let mut chunks = request.into_inner();
        let first = chunks.message().await?.ok_or_else(|| malformed("an empty push"))?;
        let header = first.header.ok_or_else(|| malformed("the first chunk must have a header"))?;
        let repository = self.0.repository(&id(&header.repository)?).await?;
        let refs = header.refs.iter().map(named_ref).collect::<Result<Vec<_>, _>>()?;
        let pack = self.receive(first.data, &mut chunks).await?;
        repository.receive(Pushed { pack, refs }).await?;
        Ok(Response::new(v1::PushResponse {}))
    }

    type FetchStream = Pin<Box<dyn futures_util::Stream<Item = Result<v1::FetchChunk, Status>> + Send>>;

    async fn fetch(&self, request: Request<v1::FetchRequest>) -> Result<Response<Self::FetchStream>, Status> {
        let request = request.into_inner();
        let repository = self.0.repository(&id(&request.repository)?).await?;
        let (want, have) = (commits(&request.want)?, commits(&request.have)?);
        let (out, stream) = mpsc::channel(BUFFER);
        tokio::spawn(async move {
            let reader = out.clone();
            let chunks = Chunks::new(move |data| {
                let gone = |_| std::io::Error::from(std::io::ErrorKind::BrokenPipe);
                reader.blocking_send(Ok(v1::FetchChunk { data })).map_err(gone)
            });
            if let Err(error) = repository.pack(want, have, chunks).await {
                drop(out.send(Err(error.into())).await);
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

impl Packs {
    /// Writes a pack to a file: it is checked as a whole before anything of it counts.
    async fn receive(
        &self,
        first: Vec<u8>,
        chunks: &mut Streaming<v1::PushChunk>,
    ) -> Result<Option<tempfile::TempPath>, Status> {
        let folder = self.0.data().join("tmp");
        let io = |source| Status::from(Error::Io { what: "receive a pack".to_owned(), source });
        tokio::fs::create_dir_all(&folder).await.map_err(io)?;
        let (file, path) = tempfile::NamedTempFile::new_in(folder).map_err(io)?.into_parts();
        let mut file = tokio::fs::File::from_std(file);
        let (mut data, mut length) = (first, 0_u64);
        loop {
            length += data.len() as u64;
            if length > PACK_LIMIT {
                return Err(Status::resource_exhausted(
                    "a pack of more than 1 GiB; deliver less in one attempt",
                ));
            }
            file.write_all(&data).await.map_err(io)?;
            match chunks.message().await? {
                Some(chunk) => data = chunk.data,
                None => break,
            }
        }
        file.flush().await.map_err(io)?;
        Ok((length > 0).then_some(path))
    }
}

fn id(text: &str) -> Result<RepositoryId, Status> {
    text.parse().map_err(malformed)
}

fn commits(texts: &[String]) -> Result<Vec<CommitId>, Status> {
    if texts.len() > QUESTIONS {
        return Err(malformed("more than 10 000 commits in one call"));
    }
    texts.iter().map(|text| text.parse()).collect::<Result<_, Malformed>>().map_err(malformed)
}

fn named_ref(wire: &v1::Ref) -> Result<(String, CommitId), Status> {
    if !wire.name.starts_with(REFS) {
        return Err(malformed(format!("ref {} is not under {REFS}", wire.name)));
    }
    Ok((wire.name.clone(), wire.commit.parse().map_err(malformed)?))
}
