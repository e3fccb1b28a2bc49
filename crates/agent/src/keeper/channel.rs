//! The keeper's end of its socket to the node. Its end-of-file is the news that the node is gone;
//! a report that can't be sent says the same and needs no second word.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, BorrowedFd},
};

use super::protocol::{Control, LINE_LIMIT, Report, Spec, line};

/// Most bytes of a brief; the node's own bound is far below.
const BRIEF_LIMIT: usize = 16 * 1024 * 1024;

/// The socket and what was read from it but not yet understood.
pub(crate) struct Channel {
    socket: File,
    pending: Vec<u8>,
    open: bool,
}

impl Channel {
    /// Takes standard input. The copy is closed on execution, so the agent never holds it.
    pub(crate) fn open() -> io::Result<Self> {
        let socket = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(Self { socket, pending: Vec::new(), open: true })
    }

    /// Whether the node is still there, as far as we have read.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Waits for the spec and the brief; `None` when the node ends first.
    pub(crate) fn spec(&mut self) -> io::Result<Option<(Spec, Vec<u8>)>> {
        let text = loop {
            if let Some(text) = self.line() {
                break text;
            }
            if self.pending.len() > LINE_LIMIT {
                return Err(io::Error::other("longer than a spec may be"));
            }
            if !self.read() {
                return Ok(None);
            }
        };
        let spec: Spec = serde_json::from_slice(&text)?;
        if spec.brief > BRIEF_LIMIT {
            return Err(io::Error::other(format!(
                "a brief of {} bytes; {BRIEF_LIMIT} is the most",
                spec.brief
            )));
        }
        while self.pending.len() < spec.brief {
            if !self.read() {
                return Ok(None);
            }
        }
        let rest = self.pending.split_off(spec.brief);
        let brief = std::mem::replace(&mut self.pending, rest);
        Ok(Some((spec, brief)))
    }

    /// What the node has asked since the last call. Reads once, if there is anything to read; a
    /// line that is no control (there are none) ends the channel, which ends the agent.
    pub(crate) fn controls(&mut self) -> Vec<Control> {
        if self.open && self.readable() {
            self.read();
        }
        let mut controls = Vec::new();
        while let Some(text) = self.line() {
            match serde_json::from_slice(&text) {
                Ok(control) => controls.push(control),
                Err(_) => self.open = false,
            }
        }
        controls
    }

    /// Tells the node.
    pub(crate) fn report(&mut self, report: &Report) {
        if self.socket.write_all(&line(report)).is_err() {
            self.open = false;
        }
    }

    fn readable(&self) -> bool {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let mut socket = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        poll(&mut socket, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }

    /// Reads what is there, waiting for it; whether the node is still there.
    fn read(&mut self) -> bool {
        let mut buffer = [0; 64 * 1024];
        match self.socket.read(&mut buffer) {
            Ok(0) => self.open = false,
            Ok(length) => self.pending.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.open = false,
        }
        self.open
    }

    fn line(&mut self) -> Option<Vec<u8>> {
        let end = self.pending.iter().position(|byte| *byte == b'\n')?;
        let rest = self.pending.split_off(end + 1);
        Some(std::mem::replace(&mut self.pending, rest))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
