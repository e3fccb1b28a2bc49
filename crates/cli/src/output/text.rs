//! Small pieces of text: what agents wrote made harmless for a terminal, lengths of time, counts.

use std::time::{SystemTime, UNIX_EPOCH};

use ensemble_core::{outcome::Changes, text::clip};

/// Longest reason in one line, in bytes; the whole text is in the logs.
const LINE_LIMIT: usize = 500;

/// The same text without anything that steers a terminal; line ends and tabs stay.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => c,
            c if c.is_control() || is_steering(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// Characters that turn the direction of what follows: text would not read as it is.
fn is_steering(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

/// The same text as one line of bounded length.
#[must_use]
pub fn one_line(text: &str) -> String {
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let clipped = clip(&joined, LINE_LIMIT);
    let more = if clipped.len() < joined.len() { "…" } else { "" };
    printable(clipped) + more
}

/// The beginning of a text as one line of at most `limit` characters.
#[must_use]
pub fn short(text: &str, limit: usize) -> String {
    let line = one_line(text);
    if line.chars().count() <= limit {
        return line;
    }
    line.chars().take(limit.saturating_sub(1)).collect::<String>() + "…"
}

/// The last `lines` lines of a text, each indented.
#[must_use]
pub fn tail(text: &str, lines: usize) -> Vec<String> {
    let text = printable(&text.replace("\r\n", "\n"));
    let all: Vec<&str> = text.trim_end().lines().collect();
    let from = all.len().saturating_sub(lines);
    all[from..].iter().map(|line| format!("    {}", clip(line, LINE_LIMIT))).collect()
}

/// A length of time for people, in seconds and up: `1 h 2 min`, `2 min 5 s`, `12 s`.
#[must_use]
pub fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, _) if milliseconds < 10_000 => format!("{}.{} s", seconds, milliseconds / 100 % 10),
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// A number of bytes for people: `512 B`, `1.5 MiB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    const UNITS: [(u32, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let Some((shift, unit)) = UNITS.iter().find(|(shift, _)| bytes >> shift > 0) else {
        return format!("{bytes} B");
    };
    let tenths = (u128::from(bytes) * 10) >> shift;
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// How long ago something was, in its largest unit: `3 min ago`.
#[must_use]
pub fn ago(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match (seconds / 86_400, seconds / 3600, seconds / 60) {
        (0, 0, 0) => format!("{seconds} s ago"),
        (0, 0, minutes) => format!("{minutes} min ago"),
        (0, hours, _) => format!("{hours} h ago"),
        (days, _, _) => format!("{} ago", count(usize::try_from(days).unwrap_or(usize::MAX), "day")),
    }
}

/// The wall clock, in milliseconds since the epoch.
#[must_use]
pub fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// `1 file`, `2 files`.
#[must_use]
pub fn count(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// What changed: `2 files, +120 −3`.
#[must_use]
pub fn changes(changes: &Changes) -> String {
    format!("{}, +{} −{}", count(changes.files as usize, "file"), changes.added, changes.removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_wrote_cannot_steer_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\r\u{202e}c\td\n"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}c\td\n");
        assert_eq!(one_line(" a\n\n b\tc "), "a b c");
        assert!(one_line(&"é".repeat(1000)).ends_with("é…"));
        assert_eq!(short("abcdef", 4), "abc…");
    }

    #[test]
    fn the_end_of_an_output_is_indented() {
        assert_eq!(tail("1\r\n2\n3\n\n", 2), ["    2", "    3"]);
        assert!(tail("", 5).is_empty());
    }

    #[test]
    fn sizes_read_well_at_every_length() {
        assert_eq!(
            [0, 1023, 1536, 5 << 20, u64::MAX].map(bytes),
            ["0 B", "1023 B", "1.5 KiB", "5.0 MiB", "16777215.9 TiB"]
        );
    }

    #[test]
    fn times_read_well_at_every_length() {
        let all = [900, 12_345, 125_000, 3_720_000].map(duration);
        assert_eq!(all, ["0.9 s", "12 s", "2 min 5 s", "1 h 2 min"]);
        let all = [900, 185_000, 7_300_000, 86_400_000, 200_000_000].map(ago);
        assert_eq!(all, ["0 s ago", "3 min ago", "2 h ago", "1 day ago", "2 days ago"]);
    }
}
