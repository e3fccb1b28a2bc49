//! Which paths the worktree's `.gitignore` files leave out. Only those files count: no
//! configuration, no exclude file of a repository or a user.

use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};

/// Longest `.gitignore` that is read; the rest of a longer one is not looked at.
pub(super) const LIMIT: u64 = 1024 * 1024;

/// The rules from the root down to the folder that is being walked.
#[derive(Default)]
pub(super) struct Rules {
    /// Length of the folder's prefix (with its `/`), and its rules.
    stack: Vec<(usize, Gitignore)>,
}

impl Rules {
    /// Adds the `.gitignore` of the folder whose paths start with the first `prefix` bytes.
    pub(super) fn push(&mut self, prefix: usize, text: &[u8]) {
        let mut builder = GitignoreBuilder::new(".");
        let text = String::from_utf8_lossy(text);
        for line in text.trim_start_matches('\u{feff}').lines() {
            // A malformed line matches nothing, as in git.
            let _ = builder.add_line(None, line);
        }
        if let Ok(rules) = builder.build() {
            self.stack.push((prefix, rules));
        }
    }

    /// How many folders have rules.
    pub(super) fn depth(&self) -> usize {
        self.stack.len()
    }

    /// Forgets the rules of deeper folders.
    pub(super) fn truncate(&mut self, depth: usize) {
        self.stack.truncate(depth);
    }

    /// Whether `path` is left out, its folder being not. The deepest rule that speaks decides.
    pub(super) fn ignores(&self, path: &str, is_folder: bool) -> bool {
        for (prefix, rules) in self.stack.iter().rev() {
            match rules.matched(&path[*prefix..], is_folder) {
                Match::None => {}
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deeper_rules_win_and_anchors_count_from_their_folder() {
        let mut rules = Rules::default();
        rules.push(0, b"\xef\xbb\xbf*.log\n/build/\n# note\n[\n");
        rules.push(4, b"!keep.log\n/here\n");
        assert!(rules.ignores("sub/a.log", false));
        assert!(!rules.ignores("sub/keep.log", false));
        assert!(rules.ignores("sub/here", false));
        assert!(!rules.ignores("sub/x/here", false));
        rules.truncate(1);
        assert!(rules.ignores("build", true));
        assert!(!rules.ignores("build", false));
        assert!(!rules.ignores("sub/build", true));
    }
}
