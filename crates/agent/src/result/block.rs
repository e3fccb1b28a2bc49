//! Finding the last fenced `result` block in an agent's output (S18). Only the opening line
//! counts, not the pairing of fences before it: of a long output the middle is missing.

/// The last block of an output.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block<'a> {
    /// What stands in it; why there is nothing to read in the other case.
    pub(super) text: Result<&'a str, String>,
    /// The output before it.
    pub(super) before: &'a str,
}

/// The last `result` block of `output`, if there is one.
pub(super) fn last(output: &str) -> Option<Block<'_>> {
    let mut opened = None;
    let mut at = 0;
    for line in output.split_inclusive('\n') {
        let end = at + line.len();
        if let Some(fence) = opening(line) {
            opened = Some((at, end, fence));
        }
        at = end;
    }
    let (start, inside, fence) = opened?;
    let mut at = inside;
    for line in output[inside..].split_inclusive('\n') {
        if closes(line, fence) {
            return Some(Block { text: Ok(&output[inside..at]), before: &output[..start] });
        }
        at += line.len();
    }
    let why = "the last `result` block is not closed; end it with a line of backticks".to_owned();
    Some(Block { text: Err(why), before: &output[..start] })
}

/// The number of backticks, if the line opens a `result` block.
fn opening(line: &str) -> Option<usize> {
    let line = line.trim();
    let info = line.trim_start_matches('`');
    let fence = line.len() - info.len();
    let named = info.split_whitespace().next().is_some_and(|word| word.eq_ignore_ascii_case("result"));
    (fence >= 3 && named).then_some(fence)
}

fn closes(line: &str, fence: usize) -> bool {
    let line = line.trim();
    line.len() >= fence && line.bytes().all(|byte| byte == b'`')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(output: &str) -> Option<&str> {
        last(output).map(|block| block.text.unwrap_or("not closed"))
    }

    #[test]
    fn the_last_block_counts() {
        assert_eq!(text("a\n```result\n1\n```\nb\n```result\n2\n```\nc"), Some("2\n"));
        assert_eq!(last("a\n```result\n1\n```").unwrap().before, "a\n");
    }

    #[test]
    fn other_blocks_and_plain_words_are_none() {
        assert_eq!(text("result\n```json\n{}\n```\n``result\n"), None);
        assert_eq!(text("```results\n1\n```"), None);
    }

    #[test]
    fn spelling_is_free_where_it_does_no_harm() {
        assert_eq!(text("  ````Result json\r\n```\r\n1\r\n````\r\n"), Some("```\r\n1\r\n"));
    }

    #[test]
    fn a_block_that_is_cut_off_is_seen() {
        assert_eq!(text("```result\n{\"status\": \"SUC"), Some("not closed"));
        assert_eq!(text("```result\n1\n```\n```result\n2"), Some("not closed"));
    }
}
