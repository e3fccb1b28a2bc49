//! Port ranges for attempts: ten ports each, never the same ten for two attempts on one machine at
//! once. A range is held by a name in the kernel's abstract socket space, which vanishes with the
//! process, and its ports are tried before it is given out. Nothing stops others from using them.

use std::{
    net::{Ipv4Addr, TcpListener},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
};

/// Ports of one range.
const WIDTH: u16 = 10;
/// First port of the first range, and the first port beyond the last: above the well-known ones,
/// below those that the kernel gives to outgoing connections.
const SPAN: [u16; 2] = [20_000, 32_760];

/// A range that no other attempt on this machine has; free again when dropped.
#[derive(Debug)]
pub(crate) struct Ports {
    first: u16,
    _name: UnixListener,
}

impl Ports {
    /// A free range; nothing when all are taken.
    pub(crate) fn take() -> Option<Self> {
        (SPAN[0]..SPAN[1]).step_by(WIDTH.into()).find_map(|first| {
            let name = SocketAddr::from_abstract_name(format!("ensemble-ports-{first}")).ok()?;
            let name = UnixListener::bind_addr(&name).ok()?;
            let range = first..first + WIDTH;
            let open: Result<Vec<_>, _> =
                range.map(|port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))).collect();
            open.ok().map(|_| Self { first, _name: name })
        })
    }
}

/// As agents read it: `20000-20009`.
impl std::fmt::Display for Ports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.first, self.first + WIDTH - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_attempts_never_share_a_range_and_a_used_port_is_passed_over() {
        let one = Ports::take().unwrap();
        let two = Ports::take().unwrap();
        assert_ne!(one.first, two.first);
        let first = one.first;
        drop(one);
        if let Ok(_used) = TcpListener::bind((Ipv4Addr::LOCALHOST, first)) {
            assert_ne!(Ports::take().unwrap().first, first);
        }
    }
}
