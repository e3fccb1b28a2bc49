//! Paths that a plan, a result or a worktree may name: inside the repository, and spelt so that
//! no file system takes them for something else. The same rule at check and at capture.

/// Longest path in bytes, and longest component: what common file systems carry.
const PATH_LIMIT: usize = 4096;
const COMPONENT_LIMIT: usize = 255;

/// Why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    /// Nothing there.
    #[error("is empty")]
    Empty,
    /// Starts at a root: `/x`, `\x`, `C:\x`.
    #[error("is absolute; write it relative to the repository")]
    Absolute,
    /// Holds `.` or `..` or an empty component.
    #[error("holds an empty, `.` or `..` component; write it straight from the repository's root")]
    Climbs,
    /// Goes into git's own folder, in any spelling that some file system folds to it.
    #[error("goes into `.git`")]
    Git,
    /// Holds a control character or is not text that every system can show.
    #[error("holds a control character")]
    Control,
    /// Holds a backslash, a stream separator or a component that ends in a dot or space.
    #[error("holds `\\` or `:`, or a part that ends in a dot or a space")]
    Odd,
    /// Too long.
    #[error("is too long")]
    Long,
}

/// Checks that `path` stays inside the repository and is spelt plainly.
///
/// # Errors
/// [`BadPath`] with the rule that it breaks.
pub fn check(path: &str) -> Result<(), BadPath> {
    if path.is_empty() {
        return Err(BadPath::Empty);
    }
    if path.len() > PATH_LIMIT {
        return Err(BadPath::Long);
    }
    if path.chars().any(|c| c.is_control() || is_invisible(c)) {
        return Err(BadPath::Control);
    }
    if path.starts_with('/') || path.starts_with('\\') || has_drive(path) {
        return Err(BadPath::Absolute);
    }
    path.split('/').try_for_each(check_component)
}

fn check_component(component: &str) -> Result<(), BadPath> {
    if matches!(component, "" | "." | "..") {
        return Err(BadPath::Climbs);
    }
    if component.len() > COMPONENT_LIMIT {
        return Err(BadPath::Long);
    }
    let folded = component.trim_end_matches(['.', ' ']).to_lowercase();
    if folded == ".git" || is_short_git(&folded) || folded.starts_with(".git:") {
        return Err(BadPath::Git);
    }
    if component.contains(['\\', ':']) || component.ends_with(['.', ' ']) {
        return Err(BadPath::Odd);
    }
    Ok(())
}

/// The name that Windows makes of `.git`: `git~1`.
fn is_short_git(folded: &str) -> bool {
    folded.strip_prefix("git~").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
}

fn has_drive(path: &str) -> bool {
    let bytes = path.as_bytes();
    bytes.len() >= 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':'
}

/// Characters that some file systems drop, so that `.g\u{200c}it` becomes `.git`.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_paths_pass() {
        for path in ["a", "src/app.py", "docs/übersicht.md", ".github/x.yml", ".gitignore", "a b/c", "…/x"]
        {
            assert_eq!(check(path), Ok(()), "{path}");
        }
    }

    #[test]
    fn each_way_out_is_named() {
        for (path, why) in [
            ("", BadPath::Empty),
            ("/etc/passwd", BadPath::Absolute),
            ("\\\\host\\x", BadPath::Absolute),
            ("C:\\x", BadPath::Absolute),
            ("../x", BadPath::Climbs),
            ("a/../x", BadPath::Climbs),
            ("a//b", BadPath::Climbs),
            ("./a", BadPath::Climbs),
            ("a/", BadPath::Climbs),
            (".git/hooks/x", BadPath::Git),
            ("a/.GIT/x", BadPath::Git),
            (".git./x", BadPath::Git),
            ("GIT~1/x", BadPath::Git),
            ("a\nb", BadPath::Control),
            (".g\u{200c}it/x", BadPath::Control),
            ("a\\b", BadPath::Odd),
            ("ab:c", BadPath::Odd),
            ("a.", BadPath::Odd),
        ] {
            assert_eq!(check(path), Err(why), "{path:?}");
        }
    }
}
