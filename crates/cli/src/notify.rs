//! Telling somebody that a run waits or has ended: a command with JSON on its standard input, or a POST
//! to an address. Bounded in time; whatever goes wrong is a warning and changes nothing.

use std::{io, process::Stdio, time::Duration};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::Command,
    time::timeout,
};
use tonic::transport::Uri;

use crate::output;

/// Longest time of a notification.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of an answer that are read: its first line is all that counts.
const ANSWER: u64 = 1024;

/// Who is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notify {
    /// A program with its arguments.
    Command(Vec<String>),
    /// An address.
    Url(String),
}

impl Notify {
    /// An address, or else a line for the shell.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let text = text.trim();
        if text.starts_with("http://") || text.starts_with("https://") {
            return Self::Url(text.to_owned());
        }
        Self::Command(["sh", "-c", text].map(str::to_owned).to_vec())
    }

    async fn deliver(&self, event: &str) -> Result<(), String> {
        match self {
            Self::Command(words) => command(words, event, PATIENCE).await,
            Self::Url(url) => match timeout(PATIENCE, post(url, event)).await {
                Ok(done) => done,
                Err(_) => Err(late(PATIENCE)),
            },
        }
    }
}

fn late(patience: Duration) -> String {
    format!("no end within {} s", patience.as_secs())
}

/// Tells whoever is to be told; that it did not work is said, and is all that comes of it.
pub async fn tell(notify: Option<&Notify>, event: &Value) {
    let Some(notify) = notify else { return };
    if let Err(why) = notify.deliver(&event.to_string()).await {
        output::say(&format!("warning: notify: {}; the run is not affected", output::one_line(&why)));
    }
}

/// Runs a command with the event on its standard input. What it writes is thrown away: standard output
/// belongs to the result.
async fn command(words: &[String], event: &str, patience: Duration) -> Result<(), String> {
    let (program, args) = words.split_first().ok_or("it names no program")?;
    let mut command = Command::new(program);
    command.kill_on_drop(true).args(args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // A group of its own, so that all of it can be ended.
    let mut child = command.process_group(0).spawn().map_err(|error| format!("{program}: {error}"))?;
    let group = child.id().and_then(|pid| i32::try_from(pid).ok());
    let mut stdin = child.stdin.take();
    let ending = async {
        if let Some(stdin) = &mut stdin {
            // One that does not read is told all the same.
            let _ = stdin.write_all(event.as_bytes()).await;
        }
        drop(stdin);
        child.wait().await
    };
    let ended = timeout(patience, ending).await;
    match ended {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!("{program}: {status}")),
        Ok(Err(error)) => Err(format!("{program}: {error}")),
        Err(_) => {
            if let Some(group) = group {
                let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
            }
            let _ = child.wait().await;
            Err(format!("{program}: {}", late(patience)))
        }
    }
}

/// Sends the event to an address and looks at the first line of the answer.
async fn post(url: &str, event: &str) -> Result<(), String> {
    let uri: Uri = url.parse().map_err(|error| format!("{url}: {error}"))?;
    if uri.scheme_str() != Some("http") {
        return Err(format!("{url}: only http is available in this version; use a command such as curl"));
    }
    let (Some(authority), Some(host)) = (uri.authority(), uri.host()) else {
        return Err(format!("{url}: it names no host"));
    };
    let port = uri.port_u16().unwrap_or(80);
    let failed = |error: io::Error| format!("{url}: {error}");
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let mut stream = TcpStream::connect((name, port)).await.map_err(failed)?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    // Whoever stands before the `@` of an address is not named to the host.
    let shown = authority.as_str().rsplit('@').next().unwrap_or(host);
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {shown}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{event}",
        event.len()
    );
    stream.write_all(request.as_bytes()).await.map_err(failed)?;
    let mut answer = Vec::new();
    stream.take(ANSWER).read_to_end(&mut answer).await.map_err(failed)?;
    let line = String::from_utf8_lossy(&answer);
    let line = line.lines().next().unwrap_or_default();
    match line.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok()) {
        Some(200..=299) => Ok(()),
        _ => Err(format!("{url}: answered `{line}`")),
    }
}

#[cfg(test)]
mod tests {
    use tokio::{io::AsyncBufReadExt, net::TcpListener};

    use super::*;

    fn shell(line: &str) -> Vec<String> {
        ["sh", "-c", line].map(str::to_owned).to_vec()
    }

    #[tokio::test]
    async fn a_command_gets_the_event_and_its_failure_is_told() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("event");
        let line = format!("cat > {}", file.display());
        command(&shell(&line), "{\"event\":\"failed\"}", PATIENCE).await.unwrap();
        assert_eq!(std::fs::read_to_string(file).unwrap(), "{\"event\":\"failed\"}");
        assert!(command(&shell("exit 3"), "{}", PATIENCE).await.unwrap_err().contains("exit status: 3"));
        assert!(command(&["/nowhere".to_owned()], "{}", PATIENCE).await.unwrap_err().contains("/nowhere"));
        // Longer than a pipe holds, and nobody reads it.
        command(&shell("true"), &"x".repeat(1 << 20), PATIENCE).await.unwrap();
    }

    #[tokio::test]
    async fn a_command_that_does_not_end_is_ended() {
        let late = command(&shell("sleep 600 & sleep 600"), "{}", Duration::from_millis(50)).await;
        assert!(late.unwrap_err().contains("no end"));
    }

    #[tokio::test]
    async fn an_address_gets_a_post_and_its_refusal_is_told() {
        for (answer, good) in [("HTTP/1.1 204 No Content", true), ("HTTP/1.1 500 Oh", false)] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/hook?a=b", listener.local_addr().unwrap());
            let serving = tokio::spawn(async move {
                let (stream, _) = listener.accept().await.unwrap();
                let mut stream = tokio::io::BufReader::new(stream);
                let mut first = String::new();
                stream.read_line(&mut first).await.unwrap();
                let mut rest = String::new();
                while rest != "\r\n" {
                    rest.clear();
                    stream.read_line(&mut rest).await.unwrap();
                }
                let mut body = [0; 2];
                stream.read_exact(&mut body).await.unwrap();
                stream.write_all(format!("{answer}\r\n\r\n").as_bytes()).await.unwrap();
                (first, body)
            });
            let posted = post(&url, "{}").await;
            assert_eq!(posted.is_ok(), good, "{posted:?}");
            let (first, body) = serving.await.unwrap();
            assert_eq!((first.as_str(), &body), ("POST /hook?a=b HTTP/1.1\r\n", b"{}"));
        }
        assert!(post("https://example.org/", "{}").await.unwrap_err().contains("only http"));
    }
}
