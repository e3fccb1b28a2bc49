//! The two clocks of a node: boot time for leases (it counts while the machine sleeps), wall clock
//! for incarnations and commit times. Nothing else here asks what time it is.

use std::time::SystemTime;

use ensemble_core::link::Millis;
use nix::time::{ClockId, clock_gettime};

/// Milliseconds since the machine started, suspensions included.
pub(crate) fn boot_time() -> Millis {
    let ms =
        clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(0, |t| t.tv_sec() * 1000 + t.tv_nsec() / 1_000_000);
    Millis(u64::try_from(ms).unwrap_or_default())
}

/// Milliseconds since the epoch.
pub(crate) fn wall_ms() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
