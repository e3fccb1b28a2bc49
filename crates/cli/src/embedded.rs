//! The embedded mode: a coordinator and a node in this process, wired through memory under the same
//! services as between machines, and a socket for other terminals. There is no second code path.

use std::{
    ffi::OsStr,
    fs,
    future::Future,
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use ensemble_coordinator::CoordinatorHandle;
use ensemble_core::{
    ids::{CoordinatorId, RunId},
    team::Team,
};
use ensemble_directory::{Local, Owner};
use ensemble_journal::Journal;
use ensemble_node::{Dial, Home, KeeperCommand, NodeHandle, one_coordinator};
use ensemble_proto::door::{Way, open};
use hyper_util::rt::TokioIo;
use nix::{errno::Errno, sys::signal::kill, unistd::Pid};
use tokio::{io::DuplexStream, net::UnixListener, sync::mpsc, task::JoinHandle};
use tokio_stream::{
    StreamExt,
    wrappers::{ReceiverStream, UnixListenerStream},
};
use tonic::{
    service::Routes,
    transport::{Endpoint, Server},
};

use crate::{
    client::Client,
    error::{DoingTo, Error},
    paths::{self, Environment},
};

/// The lease between coordinator and node. In one process neither can vanish without the other.
const LINK_TTL: Duration = Duration::from_secs(10);

/// Checks that run at once.
const CHECK_SLOTS: u32 = 2;

/// Bytes that a pipe holds before its writer waits: one chunk of bulk.
const PIPE: usize = 256 * 1024;

/// Connections that wait to be accepted.
const BACKLOG: usize = 16;

/// How long agents have to end by themselves when the process is interrupted.
const GRACE: Duration = Duration::from_secs(10);

/// How long the node has for its last words when nothing of a run is left to end: receipts of what
/// was journalled. What it can't say by then is kept on its disk.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How long the coordinator has to store what was said when the process ends.
const FLUSH: Duration = Duration::from_secs(10);

/// A coordinator, and a node if there is a team, in this process.
#[derive(Debug)]
pub struct Embedded {
    client: Client,
    coordinator: Coordinator,
    node: Option<NodeHandle>,
    servers: Vec<JoinHandle<()>>,
    socket: PathBuf,
}

/// Keeps the handle printable.
struct Coordinator(CoordinatorHandle);

impl std::fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Coordinator")
    }
}

/// This process as an owner of runs.
///
/// # Errors
/// Never, as long as process ids are numbers.
pub fn me(data: &Path) -> Result<Owner, Error> {
    let pid = std::process::id();
    let coordinator = CoordinatorId::new(format!("local-{pid}")).map_err(Error::broken)?;
    let socket = paths::socket(data, pid, &Environment::ours(), &std::env::temp_dir());
    Ok(Owner { coordinator, pid, socket })
}

impl Embedded {
    /// Starts the coordinator of a data directory; with a team, a node too that runs its employees.
    ///
    /// # Errors
    /// When the data directory can't be used.
    pub async fn start(data: &Path, journal: &Journal, team: Option<&Team>) -> Result<Self, Error> {
        let Owner { coordinator: id, socket, .. } = me(data)?;
        let listener = listen(&socket)?;
        let config = ensemble_coordinator::Config {
            data: data.to_owned(),
            id: id.clone(),
            socket: socket.clone(),
            link_ttl: LINK_TTL,
            embedded: true,
        };
        let coordinator = ensemble_coordinator::start(config, journal.clone(), Local::new(data)).await?;
        let (pipes, accepted) = mpsc::channel(BACKLOG);
        let servers = vec![
            serve(coordinator.routes(), ReceiverStream::new(accepted).map(Ok::<_, io::Error>)),
            serve(coordinator.routes(), UnixListenerStream::new(listener)),
        ];
        let client = Client::new(dial(pipes.clone()).await.map_err(Error::broken)?);
        let node = match team {
            Some(team) => Some(start_node(id, data, team, pipes).await?),
            None => None,
        };
        Ok(Self { client, coordinator: Coordinator(coordinator), node, servers, socket })
    }

    /// The way to the coordinator.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Takes over a run that nobody owns, and goes on with it.
    ///
    /// # Errors
    /// When somebody owns it, or its facts can't be read.
    pub async fn own(&self, run: RunId) -> Result<(), Error> {
        Ok(self.coordinator.0.own(run).await?)
    }

    /// Ends the agents in order: nothing new starts, what they did is captured and told.
    pub async fn drain(&self) {
        self.coordinator.0.close();
        if let Some(node) = &self.node {
            node.drain(GRACE).await;
        }
    }

    /// Waits until the node has ended by itself, which it does only when it can't go on.
    pub async fn node_ended(&self) {
        match &self.node {
            Some(node) => node.ended().await,
            None => std::future::pending().await,
        }
    }

    /// Ends at once; agents are killed. What is journalled is safe.
    pub async fn kill(self) {
        if let Some(node) = &self.node {
            node.kill().await;
        }
        self.clean();
    }

    /// Ends in order, once nothing of a run is with the node any more. The journal is closed afterwards.
    pub async fn shutdown(self) {
        self.coordinator.0.close();
        if let Some(node) = &self.node
            && tokio::time::timeout(LAST_WORDS, node.drain(LAST_WORDS)).await.is_err()
        {
            node.kill().await;
        }
        self.coordinator.0.clone().shutdown(FLUSH).await;
        self.clean();
    }

    fn clean(self) {
        self.servers.iter().for_each(JoinHandle::abort);
        // Left behind it would only be in the way of nobody: its name holds the process id.
        let _ = fs::remove_file(&self.socket);
    }
}

async fn start_node(
    coordinator: CoordinatorId,
    data: &Path,
    team: &Team,
    pipes: mpsc::Sender<DuplexStream>,
) -> Result<NodeHandle, Error> {
    let keeper = KeeperCommand {
        program: std::env::current_exe().doing_to("find", "our own binary")?,
        args: vec!["keeper".into()],
    };
    let way = Dial::new(move || {
        let dialling = dial(pipes.clone());
        Box::pin(async { Ok(dialling.await?) })
    });
    let config = ensemble_node::Config {
        home: Home::open_free(data)?,
        team: team.clone(),
        check_slots: CHECK_SLOTS,
        keeper,
        link_ttl: LINK_TTL,
        coordinators: one_coordinator(coordinator, way),
    };
    Ok(ensemble_node::start(config).await?)
}

/// A connection to the coordinator in this process: one end here, the other handed to the server.
fn dial(
    pipes: mpsc::Sender<DuplexStream>,
) -> impl Future<Output = Result<Way, tonic::transport::Error>> + Send + 'static {
    let connect = tower::service_fn(move |_| {
        let pipes = pipes.clone();
        async move {
            let (ours, theirs) = tokio::io::duplex(PIPE);
            let gone = |_| io::Error::from(io::ErrorKind::ConnectionRefused);
            pipes.send(theirs).await.map_err(gone)?;
            Ok::<_, io::Error>(TokioIo::new(ours))
        }
    });
    async move { Ok(open(Endpoint::from_static("http://embedded").connect_with_connector(connect).await?)) }
}

fn serve<S, I, E>(routes: Routes, incoming: S) -> JoinHandle<()>
where
    S: tokio_stream::Stream<Item = Result<I, E>> + Send + 'static,
    I: tokio::io::AsyncRead
        + tokio::io::AsyncWrite
        + tonic::transport::server::Connected
        + Unpin
        + Send
        + 'static,
    E: Into<Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
{
    tokio::spawn(async move {
        if let Err(error) = Server::builder().add_routes(routes).serve_with_incoming(incoming).await {
            tracing::error!(%error, "a listener ended");
        }
    })
}

/// Listens at a Unix socket that only this user can reach.
fn listen(socket: &Path) -> Result<UnixListener, Error> {
    let folder = socket.parent().unwrap_or(Path::new("."));
    if !folder.is_dir() {
        fs::create_dir_all(folder).doing_to("make the folder", folder)?;
        // Before the socket is in it, so that nobody gets through between.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).doing_to("close", folder)?;
    }
    sweep(folder);
    match fs::remove_file(socket) {
        // One of an earlier process with this id.
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).doing_to("remove the old", socket);
        }
        _ => {}
    }
    let listener = UnixListener::bind(socket).doing_to("listen at", socket)?;
    fs::set_permissions(socket, fs::Permissions::from_mode(0o600)).doing_to("close", socket)?;
    Ok(listener)
}

/// Removes the sockets of processes that were killed; they are only litter, so nothing depends on it.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path.file_name().and_then(OsStr::to_str).and_then(|name| name.strip_suffix(".sock"));
        let Some(pid) = name.and_then(|name| name.parse().ok()) else { continue };
        if kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH) {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[tokio::test]
    async fn the_socket_is_closed_to_others_and_replaces_one_left_behind() {
        let data = tempfile::tempdir().unwrap();
        let socket = data.path().join("sock/1.sock");
        drop(listen(&socket).unwrap());
        assert!(socket.exists(), "a socket outlives its listener");
        let _listener = listen(&socket).unwrap();
        assert_eq!((mode(&socket), mode(socket.parent().unwrap())), (0o600, 0o700));
    }

    #[tokio::test]
    async fn an_embedded_coordinator_answers_through_memory_and_through_its_socket() {
        let data = tempfile::tempdir().unwrap();
        let journal = Journal::open(data.path()).unwrap();
        let embedded = Embedded::start(data.path(), &journal, None).await.unwrap();
        let run = RunId::from_parts(1, 1);
        let far = Client::of_socket(&embedded.socket).await.unwrap();
        for client in [embedded.client(), &far] {
            let error = client.stop(run, None).await.unwrap_err();
            assert!(error.to_string().contains("no run"), "{error}");
        }
        let socket = embedded.socket.clone();
        embedded.shutdown().await;
        assert!(!socket.exists());
        assert!(Client::of_socket(&socket).await.is_err());
    }
}
