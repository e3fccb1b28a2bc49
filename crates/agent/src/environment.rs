//! The environment of an agent: nothing of the node's own but an allow-list, so that a secret of
//! the node's owner reaches an agent only where the team file names it.

use std::{collections::BTreeMap, ffi::OsString};

/// Variables that every agent gets from the node's own environment: how to find programs, which
/// language, clock and temporary folder. No proxies (they hold passwords), no agent sockets.
pub const ALLOWED: &[&str] = &[
    "PATH",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_ADDRESS",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_IDENTIFICATION",
    "LC_MEASUREMENT",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NAME",
    "LC_NUMERIC",
    "LC_PAPER",
    "LC_TELEPHONE",
    "LC_TIME",
    "TZ",
    "TZDIR",
    "TMPDIR",
    "USER",
    "LOGNAME",
    "SHELL",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Where programs are looked for when the node itself has no `PATH`.
const PLAIN_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A clean environment: the variables of `allow` (usually [`ALLOWED`]) and `pass` as `own` gives
/// them, then those of `set`, which win. A name in `pass` that `own` lacks is left out. `TERM` is
/// `dumb` unless set or passed: an agent has no terminal. `HOME` comes by `set` alone.
#[must_use]
pub fn environment(
    allow: &[&str],
    set: &BTreeMap<String, String>,
    pass: &[String],
    own: impl Fn(&str) -> Option<OsString>,
) -> BTreeMap<String, OsString> {
    let defaults = [("PATH", PLAIN_PATH), ("TERM", "dumb")];
    let defaults = defaults.map(|(name, value)| (name.to_owned(), OsString::from(value)));
    let names = allow.iter().copied().chain(pass.iter().map(String::as_str));
    let inherited = names.filter_map(|name| Some((name.to_owned(), own(name)?)));
    let set = set.iter().map(|(name, value)| (name.clone(), OsString::from(value)));
    defaults.into_iter().chain(inherited).chain(set).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(name: &str) -> Option<OsString> {
        let value = match name {
            "PATH" => "/bin",
            "LC_ALL" => "C",
            "API_KEY" => "secret",
            "AWS_SECRET" => "secret too",
            "HOME" => "/home/owner",
            "SSH_AUTH_SOCK" => "/run/agent",
            _ => return None,
        };
        Some(value.into())
    }

    fn names(environment: &BTreeMap<String, OsString>) -> Vec<&str> {
        environment.keys().map(String::as_str).collect()
    }

    #[test]
    fn secrets_and_home_stay_with_the_owner() {
        let clean = environment(ALLOWED, &BTreeMap::new(), &[], own);
        assert_eq!(names(&clean), ["LC_ALL", "PATH", "TERM"]);
    }

    #[test]
    fn what_the_team_file_names_is_passed_and_what_it_sets_wins() {
        let set =
            BTreeMap::from([("PATH".to_owned(), "/opt".to_owned()), ("HOME".to_owned(), "/h".to_owned())]);
        let clean = environment(ALLOWED, &set, &["API_KEY".to_owned(), "ABSENT".to_owned()], own);
        assert_eq!(names(&clean), ["API_KEY", "HOME", "LC_ALL", "PATH", "TERM"]);
        assert_eq!(clean["API_KEY"], "secret");
        assert_eq!(clean["PATH"], "/opt");
        assert_eq!(clean["HOME"], "/h");
    }

    #[test]
    fn there_is_always_a_path() {
        assert!(environment(ALLOWED, &BTreeMap::new(), &[], |_| None).contains_key("PATH"));
    }
}
