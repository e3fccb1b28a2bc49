//! A person's own configuration, `$XDG_CONFIG_HOME/ensemble/config.yaml`, and the environment that beats
//! it. A key that is not known is an error: a typing mistake must not go unnoticed.

use std::{env, path::Path};

use ensemble_core::source::{self, Findings, Reading, Spot, Value};

use crate::{error::Error, files, notify::Notify, paths::Environment};

/// Beats the key `notify`.
const NOTIFY: &str = "ENSEMBLE_NOTIFY";

const KEYS: [&str; 1] = ["notify"];

/// A person's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Who is told when a run waits or ends.
    pub notify: Option<Notify>,
}

impl Config {
    /// That of whoever started this process.
    ///
    /// # Errors
    /// [`Error::Files`] with all findings.
    pub fn ours() -> Result<Self, Error> {
        let file = Environment::ours().config();
        Self::read(file.as_deref(), env::var(NOTIFY).ok().as_deref())
    }

    /// That of a file, if it is there; `notify` is what the environment says, where nothing is nobody.
    ///
    /// # Errors
    /// [`Error::Files`] with all findings.
    pub fn read(file: Option<&Path>, notify: Option<&str>) -> Result<Self, Error> {
        let mut config = match file.filter(|file| file.is_file()) {
            Some(file) => parse(&file.display().to_string(), &files::text(file)?).map_err(Error::Files)?.0,
            None => Self::default(),
        };
        if let Some(word) = notify {
            config.notify = Some(word.trim()).filter(|word| !word.is_empty()).map(Notify::of);
        }
        Ok(config)
    }
}

fn parse(name: &str, text: &str) -> Reading<Config> {
    let mut findings = Findings::new(name);
    let Some(tree) = source::parse(text, &mut findings) else { return findings.finish(None) };
    let root = Spot::root(&tree);
    if !root.mapping(&KEYS, &mut findings) {
        return findings.finish(None);
    }
    let notify = root.get("notify").and_then(|spot| match &spot.node.value {
        Value::List(_) => {
            let words = spot.list(&mut findings, |word, f| word.word(f));
            if words.first().is_none_or(String::is_empty) {
                findings.error(&spot, "schema", "names no program");
            }
            Some(Notify::Command(words))
        }
        _ => spot.some_text(&mut findings).map(|text| Notify::of(&text)),
    });
    findings.finish(Some(Config { notify }))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(text: &str, variable: Option<&str>) -> Result<Config, Error> {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("config.yaml");
        fs::write(&file, text).unwrap();
        Config::read(Some(&file), variable)
    }

    #[test]
    fn a_command_an_address_or_a_list_of_words_is_told() {
        let notify = |text| read(text, None).unwrap().notify.unwrap();
        assert_eq!(notify("notify: notify-send hello"), Notify::of("notify-send hello"));
        assert_eq!(notify("notify: [tell, \"a b\"]"), Notify::Command(vec!["tell".into(), "a b".into()]));
        assert_eq!(notify("notify: http://localhost:8000/x"), Notify::Url("http://localhost:8000/x".into()));
    }

    #[test]
    fn the_environment_beats_the_file_and_nothing_in_it_means_nobody() {
        assert_eq!(read("notify: one", Some("two")).unwrap().notify, Some(Notify::of("two")));
        assert_eq!(read("notify: one", Some("")).unwrap().notify, None);
        assert_eq!(Config::read(None, None).unwrap(), Config::default());
    }

    #[test]
    fn a_typing_mistake_is_an_error() {
        let error = read("notfy: one", None).unwrap_err();
        assert_eq!(error.exit() as u8, 2);
        assert!(read("notify: []", None).is_err());
    }
}
