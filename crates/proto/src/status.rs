//! What a gRPC status tells the caller: whether repeating is safe. One table for everybody.

use tonic::{Code, Status};

/// What to do after a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Nothing happened; try again.
    Retry,
    /// It may have happened; ask before trying again, or repeat only what is safe to repeat.
    Unknown,
    /// Repeating gives the same.
    Final,
}

/// What a status tells the caller. The transport names a time-out `Cancelled` and a broken connection
/// `Unknown`, so these two are read with their message.
#[must_use]
pub fn advice(status: &Status) -> Advice {
    match status.code() {
        Code::Unavailable | Code::ResourceExhausted | Code::Aborted => Advice::Retry,
        Code::Cancelled | Code::DeadlineExceeded | Code::Internal => Advice::Unknown,
        Code::Unknown if status.message().contains("h2 protocol error") => Advice::Unknown,
        _ => Advice::Final,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_connection_leaves_doubt_and_a_refused_one_none() {
        assert_eq!(advice(&Status::unavailable("tcp connect error")), Advice::Retry);
        assert_eq!(advice(&Status::unknown("h2 protocol error: broken pipe")), Advice::Unknown);
        assert_eq!(advice(&Status::cancelled("Timeout expired")), Advice::Unknown);
        assert_eq!(advice(&Status::invalid_argument("no")), Advice::Final);
    }
}
