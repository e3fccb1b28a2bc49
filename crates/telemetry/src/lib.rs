//! Logs and trace context. Logs go to standard error, by `ENSEMBLE_LOG`; the trace id of a run is the
//! run id's bytes, and span ids follow from the run and a fact's sequence, so they can be told again
//! after a crash. Exporting spans is not here yet.

use ensemble_core::ids::{RunId, Seq};
use tracing_subscriber::EnvFilter;

/// Sends logs to standard error: warnings, or what `filter` (the value of `ENSEMBLE_LOG`) asks for.
/// Does nothing when it was called before.
pub fn init(filter: Option<&str>) {
    let filter = EnvFilter::builder().parse_lossy(filter.unwrap_or("warn,ractor=off"));
    let _already_set =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
}

/// The id of the span that stands for the fact `seq` of `run`: eight bytes, never all zero.
#[must_use]
pub fn span_id(run: RunId, seq: Seq) -> [u8; 8] {
    let [.., a, b, c, d, e, f, g, h] = run.to_bytes();
    // The run's random half makes it differ between runs, the sequence within one.
    let mixed = u64::from_be_bytes([a, b, c, d, e, f, g, h]) ^ seq.0.rotate_left(1).wrapping_add(1);
    mixed.max(1).to_be_bytes()
}

/// The W3C `traceparent` under which the work that `seq` dispatched is traced.
#[must_use]
pub fn traceparent(run: RunId, seq: Seq) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("00-{}-{}-01", hex(&run.to_bytes()), hex(&span_id(run, seq)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_names_the_run_and_differs_by_fact() {
        let run = RunId::from_parts(1, 2);
        let one = traceparent(run, Seq(1));
        assert_eq!(one.len(), 55);
        assert!(one.starts_with("00-0000000000010000"));
        assert_ne!(one, traceparent(run, Seq(2)));
    }
}
