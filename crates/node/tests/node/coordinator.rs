//! A coordinator for the tests: it speaks the real protocol over the real transport and keeps what
//! it hears. It decides nothing; the test tells it what to say.

use std::{
    collections::BTreeMap,
    io::Read,
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use ensemble_core::{
    ids::{CommitId, CoordinatorId, Epoch, Incarnation, RunId},
    link::{AttemptKey, Config, Event, Link, Millis, Rejected, Side},
    message::{Ended, Hello, Inventory, PROTOCOL, ToCoordinator, ToNode, Welcome},
};
use ensemble_node::Dial;
use ensemble_proto::{
    NodeFirst, attempt_key,
    door::open,
    node_first, v1,
    v1::{
        repository_server::{Repository as RepositoryService, RepositoryServer},
        workforce_server::{Workforce, WorkforceServer},
    },
    wire_coordinator_frame, wire_welcome,
};
use ensemble_workspace::{Expect, Repository};
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;
use tokio_stream::{Stream, StreamExt, wrappers::ReceiverStream};
use tonic::{
    Request, Response, Status, Streaming,
    transport::{Endpoint, Server, server::Connected},
};

/// No test waits longer than this for anything.
pub const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub struct Coordinator(Arc<Mutex<Inner>>);

pub struct Inner {
    machine: Link<ToNode, ToCoordinator>,
    out: Option<mpsc::Sender<Result<v1::CoordinatorFrame, Status>>>,
    pub repository: Repository,
    pub hello: Option<Hello>,
    pub heard: Vec<ToCoordinator>,
    pub logs: BTreeMap<AttemptKey, Vec<u8>>,
    /// Runs that are claimed on every new connection.
    pub owned: BTreeMap<RunId, Epoch>,
    /// Whether ends are acknowledged at once.
    pub receipts: bool,
    /// Whether anything is taken at all.
    pub reachable: bool,
    pub attachments: u32,
    pub refuse_pushes: bool,
}

fn now() -> Millis {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    Millis(START.get_or_init(Instant::now).elapsed().as_millis() as u64)
}

impl Coordinator {
    pub fn new(repository: &Path, incarnation: u64) -> Self {
        let config = Config::of(Side::Granter, Millis(3_000));
        let coordinator = Self(Arc::new(Mutex::new(Inner {
            machine: Link::new(config, Incarnation(incarnation), now()),
            out: None,
            repository: Repository::open_or_create(repository).unwrap(),
            hello: None,
            heard: Vec::new(),
            logs: BTreeMap::new(),
            owned: BTreeMap::new(),
            receipts: true,
            reachable: true,
            attachments: 0,
            refuse_pushes: false,
        })));
        let ticking = Arc::downgrade(&coordinator.0);
        tokio::spawn(async move {
            while let Some(inner) = ticking.upgrade() {
                inner.lock().unwrap().settle();
                drop(inner);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        coordinator
    }

    pub fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    /// Connections through memory.
    pub fn dial(&self) -> Dial {
        let (sender, receiver) = mpsc::channel::<Result<tokio::io::DuplexStream, std::io::Error>>(8);
        self.serve(ReceiverStream::new(receiver));
        Dial::new(move || {
            let sender = sender.clone();
            let connect = tower::service_fn(move |_| {
                let sender = sender.clone();
                async move {
                    let (near, far) = tokio::io::duplex(1024 * 1024);
                    sender.send(Ok(far)).await.map_err(std::io::Error::other)?;
                    Ok::<_, std::io::Error>(TokioIo::new(near))
                }
            });
            Box::pin(async {
                Ok(open(Endpoint::from_static("http://memory").connect_with_connector(connect).await?))
            })
        })
    }

    pub fn serve<S>(&self, incoming: impl Stream<Item = Result<S, std::io::Error>> + Send + 'static)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Connected + Unpin + Send + 'static,
    {
        let server = Server::builder()
            .add_service(WorkforceServer::new(self.clone()))
            .add_service(RepositoryServer::new(self.clone()))
            .serve_with_incoming(incoming);
        tokio::spawn(server);
    }

    pub fn say(&self, word: ToNode) {
        let mut inner = self.inner();
        inner.machine.send(word).unwrap();
        inner.settle();
    }

    /// Owns a run from now on, and says so on every connection.
    pub fn claim(&self, run: RunId, epoch: u64) {
        self.inner().owned.insert(run, Epoch(epoch));
        if self.inner().out.is_some() {
            self.say(ToNode::Claimed { run, epoch: Epoch(epoch) });
        }
    }

    pub fn hang_up(&self) {
        let mut inner = self.inner();
        inner.out = None;
        inner.machine.detach(now());
    }

    /// Waits until there is something to be seen.
    pub async fn wait<T>(&self, what: &str, mut seen: impl FnMut(&Inner) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = seen(&self.inner()) {
                return found;
            }
            assert!(Instant::now() < deadline, "no {what}; heard {:#?}", self.inner().heard);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub async fn end(&self, key: &AttemptKey) -> Ended {
        self.wait("end", |inner| inner.ends(key).next().cloned()).await
    }

    pub async fn started(&self, key: &AttemptKey) {
        let started = ToCoordinator::Started(key.clone());
        self.wait("start", |inner| inner.heard.contains(&started).then_some(())).await;
    }

    pub async fn refusal(&self, key: &AttemptKey) -> String {
        self.wait("refusal", |inner| {
            inner.heard.iter().find_map(|word| match word {
                ToCoordinator::Refused { key: of, reason } if of == key => Some(reason.clone()),
                _ => None,
            })
        })
        .await
    }

    pub async fn inventory(&self) -> Inventory {
        self.wait("inventory", |inner| {
            inner.heard.iter().find_map(|word| match word {
                ToCoordinator::Inventory(inventory) => Some(inventory.clone()),
                _ => None,
            })
        })
        .await
    }

    pub async fn attached(&self) -> Hello {
        self.wait("node", |inner| inner.out.is_some().then(|| inner.hello.clone())?).await
    }
}

impl Inner {
    pub fn ends<'a>(&'a self, key: &'a AttemptKey) -> impl Iterator<Item = &'a Ended> {
        self.heard.iter().filter_map(move |word| match word {
            ToCoordinator::Ended(ended) if ended.key == *key => Some(&**ended),
            _ => None,
        })
    }

    fn settle(&mut self) {
        let at = now();
        for event in self.machine.tick(at) {
            if event == Event::HangUp {
                self.out = None;
                self.machine.detach(at);
            }
        }
        for frame in self.machine.outgoing(at) {
            if let Some(out) = &self.out {
                let _ = out.try_send(Ok(wire_coordinator_frame(&frame)));
            }
        }
    }

    fn attach(
        &mut self,
        hello: Hello,
        out: mpsc::Sender<Result<v1::CoordinatorFrame, Status>>,
    ) -> Result<(), Status> {
        if !self.reachable {
            return Err(Status::unavailable("not now"));
        }
        let attached = self.machine.attach(hello.greeting, now());
        attached.map_err(|error| Status::failed_precondition(error.to_string()))?;
        let welcome = Welcome {
            coordinator: CoordinatorId::new("test").unwrap(),
            protocol: PROTOCOL,
            greeting: self.machine.greeting(),
        };
        let _ = out.try_send(Ok(wire_welcome(&welcome)));
        self.out = Some(out);
        self.hello = Some(hello);
        self.attachments += 1;
        for (run, epoch) in self.owned.clone() {
            self.machine.send(ToNode::Claimed { run, epoch }).unwrap();
        }
        self.settle();
        Ok(())
    }

    fn hear(&mut self, frame: v1::NodeFrame) {
        let Ok(NodeFirst::Frame(frame)) = node_first(frame) else { panic!("a second Hello") };
        let received = self.machine.receive(frame, now());
        // What was on its way when the test hung up comes again.
        assert!(matches!(received.rejected, None | Some(Rejected::NoConnection)), "{:?}", received.rejected);
        for word in received.bodies {
            if let (ToCoordinator::Ended(ended), true) = (&word, self.receipts) {
                self.machine.send(ToNode::Receipt(ended.key.clone())).unwrap();
            }
            self.heard.push(word);
        }
        self.settle();
    }
}

#[tonic::async_trait]
impl Workforce for Coordinator {
    type AttachStream = ReceiverStream<Result<v1::CoordinatorFrame, Status>>;

    async fn attach(
        &self,
        request: Request<Streaming<v1::NodeFrame>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let mut frames = request.into_inner();
        let first = frames.message().await?.ok_or_else(|| Status::invalid_argument("no first word"))?;
        let Ok(NodeFirst::Hello(hello)) = node_first(first) else {
            return Err(Status::invalid_argument("no Hello"));
        };
        let (out, receiver) = mpsc::channel(256);
        self.inner().attach(*hello, out)?;
        let (coordinator, number) = (self.clone(), self.inner().attachments);
        tokio::spawn(async move {
            while let Ok(Some(frame)) = frames.message().await {
                if coordinator.inner().attachments != number {
                    return;
                }
                coordinator.inner().hear(frame);
            }
            let mut inner = coordinator.inner();
            if inner.attachments == number {
                inner.out = None;
                inner.machine.detach(now());
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn push_log(
        &self,
        request: Request<Streaming<v1::LogChunk>>,
    ) -> Result<Response<v1::LogReceipt>, Status> {
        let mut chunks = request.into_inner();
        let mut key = None;
        let mut length = 0;
        while let Some(chunk) = chunks.message().await? {
            key = key.or_else(|| chunk.key.as_ref().map(|key| attempt_key(key).unwrap()));
            let mut inner = self.inner();
            let log = inner.logs.entry(key.clone().unwrap()).or_default();
            log.truncate(chunk.offset as usize);
            log.extend_from_slice(&chunk.data);
            length = log.len() as u64;
        }
        Ok(Response::new(v1::LogReceipt { length }))
    }
}

#[tonic::async_trait]
impl RepositoryService for Coordinator {
    type FetchStream = Pin<Box<dyn Stream<Item = Result<v1::FetchChunk, Status>> + Send>>;

    async fn known(&self, request: Request<v1::KnownRequest>) -> Result<Response<v1::KnownResponse>, Status> {
        let asked: Vec<_> =
            request.into_inner().commits.into_iter().map(|c| CommitId::new(c).unwrap()).collect();
        let known = self.inner().repository.known(&asked).unwrap();
        Ok(Response::new(v1::KnownResponse { commits: known.iter().map(ToString::to_string).collect() }))
    }

    async fn push(
        &self,
        request: Request<Streaming<v1::PushChunk>>,
    ) -> Result<Response<v1::PushResponse>, Status> {
        let mut chunks = request.into_inner();
        let mut header = None;
        let mut pack = Vec::new();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk?;
            header = header.or(chunk.header);
            pack.extend(chunk.data);
        }
        let header = header.unwrap();
        let inner = self.inner();
        if inner.refuse_pushes {
            return Err(Status::invalid_argument("never"));
        }
        for one in &header.refs {
            let tip = CommitId::new(one.commit.clone()).unwrap();
            let mut input: &mut dyn Read = &mut pack.as_slice();
            inner.repository.receive_pack(&mut input, std::slice::from_ref(&tip), u64::MAX).unwrap();
            inner.repository.update_ref(&one.name, &tip, &Expect::Absent).unwrap();
        }
        Ok(Response::new(v1::PushResponse {}))
    }

    async fn fetch(&self, request: Request<v1::FetchRequest>) -> Result<Response<Self::FetchStream>, Status> {
        let request = request.into_inner();
        let ids =
            |texts: Vec<String>| -> Vec<_> { texts.into_iter().map(|c| CommitId::new(c).unwrap()).collect() };
        let mut pack = Vec::new();
        let repository = self.inner().repository.clone();
        let written = repository.write_pack(&ids(request.want), &ids(request.have), &mut pack, u64::MAX);
        written.map_err(|error| Status::not_found(error.to_string()))?;
        let chunks: Vec<_> =
            pack.chunks(100).map(|data| Ok(v1::FetchChunk { data: data.to_vec() })).collect();
        Ok(Response::new(Box::pin(tokio_stream::iter(chunks))))
    }
}
