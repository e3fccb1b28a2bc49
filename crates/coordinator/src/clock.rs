//! The clocks of the shell. The heart has none: times go into facts' envelopes and into links from here.

use std::time::{SystemTime, UNIX_EPOCH};

use ensemble_core::link::Millis;

/// Wall-clock time in milliseconds since the epoch.
pub fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
}

/// The boot-time clock: it goes on while the machine is suspended.
pub fn boot() -> Millis {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Millis(seconds * 1000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000)
}
