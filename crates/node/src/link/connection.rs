//! One connection of the link: dialling, the first words of both sides, reading and writing frames.
//! No decision is made here.

use std::{sync::Arc, time::Duration};

use ensemble_core::message::{Hello, Welcome};
use ensemble_proto::{
    CoordinatorFirst, FRAME_LIMIT, coordinator_first, coordinator_frame,
    v1::{CoordinatorFrame, NodeFrame, workforce_client::WorkforceClient},
    wire_hello,
};
use ractor::ActorRef;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::Streaming;

use super::Msg;
use crate::{Dial, Error};

/// Longest time from dialling to the coordinator's first word.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Frames between the actor and the wire: a few windows. A coordinator that lets more gather
/// reads nothing.
const QUEUE: usize = 256;

/// A connection on which both sides have introduced themselves.
pub(crate) struct Attached {
    pub(super) welcome: Welcome,
    pub(super) sender: mpsc::Sender<NodeFrame>,
    pub(super) stream: Streaming<CoordinatorFrame>,
}

/// The connection in use; closed when dropped.
pub(super) struct Connection {
    sender: mpsc::Sender<NodeFrame>,
    _reader: AbortOnDropHandle<()>,
}

impl Connection {
    pub(super) fn new(sender: mpsc::Sender<NodeFrame>, reader: AbortOnDropHandle<()>) -> Self {
        Self { sender, _reader: reader }
    }

    pub(super) fn send(&self, frame: NodeFrame) -> Result<(), Error> {
        self.sender.try_send(frame).map_err(|_| Error::Gone("the coordinator reads nothing any more"))
    }
}

/// Makes a connection and introduces the node; the reason in words if that fails.
pub(super) async fn dial(dial: Dial, hello: Hello) -> Result<Attached, String> {
    let attaching = async {
        let channel = dial.connect().await.map_err(|trouble| trouble.to_string())?;
        let mut client = WorkforceClient::new(channel)
            .max_decoding_message_size(2 * FRAME_LIMIT)
            .max_encoding_message_size(2 * FRAME_LIMIT);
        let (sender, receiver) = mpsc::channel(QUEUE);
        sender.try_send(wire_hello(&hello)).map_err(|error| error.to_string())?;
        let said = |status: tonic::Status| format!("the coordinator refused: {}", status.message());
        let mut stream = client.attach(ReceiverStream::new(receiver)).await.map_err(said)?.into_inner();
        let first = stream.message().await.map_err(said)?;
        let first = first.ok_or_else(|| "the coordinator hung up".to_owned())?;
        match coordinator_first(first) {
            Ok(CoordinatorFirst::Welcome(welcome)) => Ok(Attached { welcome: *welcome, sender, stream }),
            Ok(CoordinatorFirst::Frame(_)) => Err("the coordinator did not introduce itself".to_owned()),
            Err(malformed) => Err(malformed.to_string()),
        }
    };
    tokio::time::timeout(HANDSHAKE, attaching)
        .await
        .unwrap_or_else(|_| Err("the coordinator did not introduce itself in time".to_owned()))
}

/// Reads frames into the actor's mailbox, no more than there are permits.
pub(super) fn read(
    mut stream: Streaming<CoordinatorFrame>,
    number: u64,
    link: ActorRef<Msg>,
    permits: Arc<Semaphore>,
) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let why = loop {
            let Ok(permit) = permits.clone().acquire_owned().await else { return };
            let frame = match stream.message().await {
                Ok(Some(frame)) => frame,
                Ok(None) => break "the coordinator hung up".to_owned(),
                Err(status) => break status.message().to_owned(),
            };
            match coordinator_frame(frame) {
                Ok(frame) => {
                    if link.send_message(Msg::Frame(number, Box::new(frame), Arc::new(permit))).is_err() {
                        return;
                    }
                }
                Err(malformed) => break malformed.to_string(),
            }
        };
        let _ = link.send_message(Msg::Closed(number, why));
    }))
}
