//! What an agent's word is worth: "done" is derived from what was seen in the working copy, never
//! believed (S35, S55). And the bounds of what is told: texts are clipped and say so.

use ensemble_core::{
    outcome::{Ending, Outcome},
    plan::WorktreeMode,
    text::{INLINE_TEXT_LIMIT, Text, clip},
};

/// Most bytes of an outcome, all texts and artifacts together: half of what a frame carries.
const OUTCOME_LIMIT: usize = 512 * 1024;
/// Longest name of a path left out, with its reason.
const NAME_LIMIT: usize = 256;
/// Most messages, blockers, and paths left out that are told.
const ITEMS: usize = 100;

/// What was seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Whether anything in the working copy is not as it was.
    pub(super) changed: bool,
    /// Declared outputs that are not there.
    pub(super) missing: Vec<String>,
}

/// Takes back a "done" that what was seen speaks against.
pub(super) fn judge(
    mut outcome: Outcome,
    mode: Option<WorktreeMode>,
    declared: &[String],
    seen: &Seen,
) -> Outcome {
    if outcome.ending != Ending::Done {
        return outcome;
    }
    let keeps = !matches!(mode, Some(WorktreeMode::Read | WorktreeMode::None));
    let against = if !seen.missing.is_empty() {
        Some(format!("declared outputs are not there: {}", seen.missing.join(", ")))
    } else if keeps && !declared.is_empty() && !seen.changed {
        Some(format!("it ended well but changed nothing, where {} was to be delivered", declared.join(", ")))
    } else if mode == Some(WorktreeMode::Write) && !seen.changed {
        Some("it ended well but changed nothing, where changes are asked for (worktree: write)".to_owned())
    } else {
        None
    };
    if let Some(why) = against {
        outcome.ending = Ending::Failed;
        outcome.blockers.insert(0, why.into());
    }
    outcome
}

/// An outcome that fits a frame: long texts are clipped; one that is too long as a whole has failed.
pub(super) fn bound(mut outcome: Outcome) -> Outcome {
    clip_text(&mut outcome.summary);
    for texts in [&mut outcome.messages, &mut outcome.blockers] {
        if texts.len() > ITEMS {
            let more = texts.len() - ITEMS;
            texts.truncate(ITEMS);
            texts.push(format!("[{more} more are left out]").into());
        }
        texts.iter_mut().for_each(clip_text);
    }
    let length = |texts: &[Text]| texts.iter().map(|text| text.head().len()).sum::<usize>();
    let artifacts = outcome.artifacts.iter().map(|(name, value)| name.len() + value.to_string().len());
    let total = outcome.summary.head().len()
        + length(&outcome.messages)
        + length(&outcome.blockers)
        + artifacts.sum::<usize>();
    if total <= OUTCOME_LIMIT {
        return outcome;
    }
    let why = format!(
        "its result has {total} bytes of texts and artifacts, at most {OUTCOME_LIMIT} are passed on; \
         write what is long into files"
    );
    let mut failed = Outcome::failed(why);
    if outcome.ending != Ending::Done {
        failed.ending = outcome.ending;
    }
    failed.usage = outcome.usage;
    failed.summary = outcome.summary;
    failed
}

/// Names, as many as are told.
pub(super) fn bound_names(mut names: Vec<String>, more: u64) -> Vec<String> {
    let more = more + names.len().saturating_sub(ITEMS) as u64;
    names.truncate(ITEMS);
    for name in names.iter_mut().filter(|name| name.len() > NAME_LIMIT) {
        *name = format!("{}…", clip(name, NAME_LIMIT));
    }
    if more > 0 {
        names.push(format!("{more} more"));
    }
    names
}

fn clip_text(text: &mut Text) {
    if text.must_spill() {
        *text = clipped(text.head()).into();
    }
}

/// The beginning of a text that is too long for a fact, and a word that it is.
fn clipped(text: &str) -> String {
    let note = format!("\n[… {} bytes, the rest is left out …]", text.len());
    format!("{}{note}", clip(text, INLINE_TEXT_LIMIT - note.len()))
}

/// The end of an output that is too long for a fact, with a word that it is one.
pub(super) fn ending_of(output: &str) -> String {
    if output.len() <= INLINE_TEXT_LIMIT {
        return output.to_owned();
    }
    let note = format!("[… the end of {} bytes …]\n", output.len());
    let mut from = output.len() - (INLINE_TEXT_LIMIT - note.len());
    while !output.is_char_boundary(from) {
        from += 1;
    }
    format!("{note}{}", &output[from..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(mode: Option<WorktreeMode>, declared: &[&str], seen: &Seen) -> Ending {
        let declared: Vec<String> = declared.iter().map(|path| (*path).to_owned()).collect();
        judge(Outcome::new(Ending::Done, "ok"), mode, &declared, seen).ending
    }

    #[test]
    fn done_needs_evidence_only_where_some_is_due() {
        let nothing = Seen::default();
        let changed = Seen { changed: true, missing: Vec::new() };
        let missing = Seen { changed: true, missing: vec!["a".to_owned()] };
        let write = Some(WorktreeMode::Write);
        let table = [
            (None, &[][..], &nothing, Ending::Done),
            (None, &["a"], &changed, Ending::Done),
            (None, &["a"], &nothing, Ending::Failed),
            (None, &["a"], &missing, Ending::Failed),
            (write, &[], &nothing, Ending::Failed),
            (write, &[], &changed, Ending::Done),
            (Some(WorktreeMode::Read), &["a"], &nothing, Ending::Done),
            (Some(WorktreeMode::None), &[], &nothing, Ending::Done),
        ];
        for (mode, declared, seen, expected) in table {
            assert_eq!(ending(mode, declared, seen), expected, "{mode:?} {declared:?} {seen:?}");
        }
    }

    #[test]
    fn another_word_than_done_stands() {
        let blocked = Outcome::new(Ending::Blocked, "no key");
        let judged = judge(blocked.clone(), Some(WorktreeMode::Write), &["a".to_owned()], &Seen::default());
        assert_eq!(judged, blocked);
    }

    #[test]
    fn long_texts_are_clipped_and_say_so() {
        let bounded = bound(Outcome::new(Ending::Done, "ä".repeat(INLINE_TEXT_LIMIT)));
        assert_eq!(bounded.ending, Ending::Done);
        assert!(!bounded.summary.must_spill());
        assert!(bounded.summary.head().ends_with("the rest is left out …]"));
        assert!(ending_of(&"ö".repeat(INLINE_TEXT_LIMIT)).len() <= INLINE_TEXT_LIMIT);
    }

    #[test]
    fn a_result_that_is_too_long_as_a_whole_has_failed() {
        let mut outcome = Outcome::new(Ending::Done, "ok");
        outcome.artifacts.insert("big".to_owned(), "x".repeat(OUTCOME_LIMIT).into());
        let bounded = bound(outcome);
        assert_eq!(bounded.ending, Ending::Failed);
        assert!(bounded.artifacts.is_empty());
        assert!(bounded.blockers[0].head().contains("write what is long into files"));
    }

    #[test]
    fn many_names_are_counted_and_long_ones_clipped() {
        assert!(bound_names(vec!["x".repeat(5000)], 0)[0].len() < 300);
        let names: Vec<String> = (0..150).map(|n| n.to_string()).collect();
        let bounded = bound_names(names, 7);
        assert_eq!((bounded.len(), bounded[100].as_str()), (101, "57 more"));
    }
}
