//! When an actor that failed is started again: back-off that doubles, and a limit within a window,
//! since an actor that fails at once every time is not helped by another start.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Starts within [`WINDOW`] that are granted.
const LIMIT: usize = 5;
const WINDOW: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The restarts of one actor.
#[derive(Debug, Default)]
pub(crate) struct Restarts(VecDeque<Instant>);

impl Restarts {
    /// How long to wait before the next start; nothing when the limit is reached.
    pub(crate) fn grant(&mut self, now: Instant) -> Option<Duration> {
        self.0.retain(|start| now.duration_since(*start) < WINDOW);
        if self.0.len() >= LIMIT {
            return None;
        }
        let pause = FIRST_PAUSE * 2_u32.pow(u32::try_from(self.0.len()).unwrap_or_default());
        self.0.push_back(now);
        Some(pause)
    }
}

/// A pause before the next try: doubles from `first` to `longest`, less up to a third, so that
/// many who failed together don't come back together.
pub(crate) fn backoff(failures: u32, first: Duration, longest: Duration) -> Duration {
    let pause = first.saturating_mul(2_u32.saturating_pow(failures.min(16))).min(longest);
    pause - pause.mul_f64(rand::random::<f64>() / 3.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_actor_is_started_again_later_each_time_and_not_for_ever() {
        let now = Instant::now();
        let mut restarts = Restarts::default();
        let pauses: Vec<_> = (0..LIMIT).map(|_| restarts.grant(now).unwrap()).collect();
        assert!(pauses.is_sorted() && pauses[0] < pauses[1]);
        assert_eq!(restarts.grant(now), None);
        assert!(restarts.grant(now + WINDOW).is_some(), "old starts don't count");
    }
}
