//! What nodes say: they attach, and send the logs of their attempts.

use std::{pin::Pin, time::Duration};

use ensemble_core::message::{Hello, PROTOCOL};
use ensemble_proto::{NodeFirst, attempt_key, node_first, node_frame, v1};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::malformed;
use crate::{
    CoordinatorHandle,
    link::{LinkHandle, OUTGOING, Outgoing},
    logs::Growing,
};

/// How long a node has for its first word.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// How long a log may be silent; an agent that says nothing sends nothing.
const LOG_SILENCE: Duration = Duration::from_secs(24 * 60 * 60);

/// The service for nodes.
pub struct Nodes(pub CoordinatorHandle);

#[tonic::async_trait]
impl v1::workforce_server::Workforce for Nodes {
    type AttachStream =
        Pin<Box<dyn futures_util::Stream<Item = Result<v1::CoordinatorFrame, Status>> + Send>>;

    async fn attach(
        &self,
        request: Request<Streaming<v1::NodeFrame>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let (out, stream) = mpsc::channel(OUTGOING);
        let (handle, mut frames) = (self.0.clone(), request.into_inner());
        tokio::spawn(async move {
            match greet(&handle, &mut frames).await {
                Ok((link, hello)) => serve(&handle, link, *hello, frames, out).await,
                Err(status) => drop(out.try_send(Err(status))),
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn push_log(
        &self,
        request: Request<Streaming<v1::LogChunk>>,
    ) -> Result<Response<v1::LogReceipt>, Status> {
        let mut chunks = request.into_inner();
        let mut log: Option<Growing> = None;
        loop {
            let next = tokio::time::timeout(LOG_SILENCE, chunks.message()).await;
            let Some(chunk) =
                next.map_err(|_| Status::deadline_exceeded("the log was silent too long"))??
            else {
                break;
            };
            let growing = match (&mut log, &chunk.key) {
                (Some(growing), _) => growing,
                (None, Some(key)) => {
                    let key = attempt_key(key).map_err(malformed)?;
                    log.insert(Growing::open(self.0.data(), &key).await?)
                }
                (None, None) => return Err(malformed("the first chunk must name the attempt")),
            };
            growing.write(chunk.offset, &chunk.data).await?;
        }
        let length = log.map_or(0, |log| log.length());
        Ok(Response::new(v1::LogReceipt { length }))
    }
}

/// Hears who dials, and finds the link for it.
async fn greet(
    handle: &CoordinatorHandle,
    frames: &mut Streaming<v1::NodeFrame>,
) -> Result<(LinkHandle, Box<Hello>), Status> {
    let first = tokio::time::timeout(HANDSHAKE, frames.message()).await;
    let first = first.map_err(|_| Status::deadline_exceeded("no hello within 5 s"))??;
    let Some(NodeFirst::Hello(hello)) = first.map(node_first).transpose().map_err(malformed)? else {
        return Err(malformed("the first frame must be a hello"));
    };
    check_protocol(&hello)?;
    Ok((handle.link(&hello).await?, hello))
}

/// Reads a node's frames until the connection ends. Only the link holds the way out: when it hangs up,
/// the stream ends and the node dials again.
async fn serve(
    handle: &CoordinatorHandle,
    link: LinkHandle,
    hello: Hello,
    mut frames: Streaming<v1::NodeFrame>,
    out: Outgoing,
) {
    let connection = match link.attach(hello, out.clone()).await {
        Ok(connection) => connection,
        Err(error) => return drop(out.try_send(Err(error.into()))),
    };
    drop(out);
    let mut closing = handle.closing();
    let ended = tokio::select! {
        result = read(&link, connection, &mut frames) => result,
        _ = closing.wait_for(|closing| *closing) => Ok(()),
    };
    if let Err(status) = ended {
        tracing::debug!(?link, %status, "the connection broke");
    }
    link.detach(connection);
}

fn check_protocol(hello: &Hello) -> Result<(), Status> {
    if hello.protocol == PROTOCOL {
        return Ok(());
    }
    let text = format!(
        "node {} speaks protocol {}, this coordinator {PROTOCOL}: run the same version on both",
        hello.node, hello.protocol
    );
    Err(Status::failed_precondition(text))
}

async fn read(
    link: &LinkHandle,
    connection: u64,
    frames: &mut Streaming<v1::NodeFrame>,
) -> Result<(), Status> {
    while let Some(frame) = frames.message().await? {
        link.frame(connection, node_frame(frame).map_err(malformed)?).await;
    }
    Ok(())
}
