//! Where things lie: the repository, the data directory of its runs, the socket of this process.
//! The environment comes in as a value.

use std::{
    env,
    ffi::OsString,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use ensemble_workspace::UserRepository;
use sha2::{Digest, Sha256};

use crate::{
    args::Place,
    error::{DoingTo, Error},
};

/// Longest path of a Unix socket in bytes, without the closing zero.
const SOCKET_LIMIT: usize = 107;

/// What of the environment says where things lie.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `XDG_CONFIG_HOME`.
    pub config_home: Option<OsString>,
    /// `XDG_STATE_HOME`.
    pub state_home: Option<OsString>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<OsString>,
    /// `HOME`.
    pub home: Option<OsString>,
}

impl Environment {
    /// That of this process.
    #[must_use]
    pub fn ours() -> Self {
        Self {
            config_home: env::var_os("XDG_CONFIG_HOME"),
            state_home: env::var_os("XDG_STATE_HOME"),
            runtime_dir: env::var_os("XDG_RUNTIME_DIR"),
            home: env::var_os("HOME"),
        }
    }

    /// Where a person's configuration lies, if the environment says so.
    #[must_use]
    pub fn config(&self) -> Option<PathBuf> {
        let home = absolute(self.config_home.as_ref())
            .or_else(|| absolute(self.home.as_ref()).map(|home| home.join(".config")));
        home.map(|home| home.join("ensemble/config.yaml"))
    }

    fn state(&self) -> Option<PathBuf> {
        // The specification wants relative paths to be ignored.
        absolute(self.state_home.as_ref())
            .or_else(|| absolute(self.home.as_ref()).map(|home| home.join(".local/state")))
    }
}

fn absolute(value: Option<&OsString>) -> Option<PathBuf> {
    value.map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The data directory of a repository whose files lie in `folder`: one of its own unless `given`.
///
/// # Errors
/// [`Error::Usage`] when the environment names no place.
pub fn data_dir(given: Option<&Path>, environment: &Environment, folder: &Path) -> Result<PathBuf, Error> {
    if let Some(given) = given {
        return std::path::absolute(given).doing_to("find", given);
    }
    let Some(state) = environment.state() else {
        return Err(Error::usage("neither XDG_STATE_HOME nor HOME is set", "say where with --data DIR"));
    };
    let canonical = fs::canonicalize(folder).doing_to("find", folder)?;
    let hash = hex::encode(Sha256::digest(canonical.as_os_str().as_bytes()));
    let mut name = canonical.file_name().unwrap_or_default().to_owned();
    name.push(format!("-{}", &hash[..8]));
    Ok(state.join("ensemble").join(name))
}

/// Where the runs of `place` are kept. With `--data` no repository is needed.
///
/// # Errors
/// When there is neither a repository nor `--data`.
pub fn data_of(place: &Place) -> Result<PathBuf, Error> {
    let environment = Environment::ours();
    if let Some(data) = &place.data {
        return data_dir(Some(data), &environment, Path::new(""));
    }
    data_dir(None, &environment, &folder_of(&UserRepository::discover(&place.repo)?)?)
}

/// The folder by which a repository is known: the one with its files, or the bare repository itself.
///
/// # Errors
/// When it can't be opened.
pub fn folder_of(repository: &UserRepository) -> Result<PathBuf, Error> {
    Ok(repository.folder()?.unwrap_or_else(|| repository.path().to_owned()))
}

/// Where a socket for a process id lies: in the data directory, unless its path would be too long.
#[must_use]
pub fn socket(data: &Path, pid: u32, environment: &Environment, temporary: &Path) -> PathBuf {
    let hash = hex::encode(Sha256::digest(data.as_os_str().as_bytes()));
    let near = data.join("sock").join(format!("{pid}.sock"));
    let name = format!("ensemble-{}-{pid}.sock", &hash[..8]);
    let runtime = absolute(environment.runtime_dir.as_ref()).map(|dir| dir.join(&name));
    let fits = |path: &PathBuf| path.as_os_str().len() <= SOCKET_LIMIT;
    Some(near).filter(fits).or_else(|| runtime.filter(fits)).unwrap_or_else(|| {
        // Made with mode 0700 by whoever binds it.
        temporary.join(format!("ensemble-{}-{pid}", &hash[..8])).join("sock")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(state: Option<&str>, home: Option<&str>) -> Environment {
        Environment {
            config_home: None,
            state_home: state.map(Into::into),
            runtime_dir: Some("/run/user/7".into()),
            home: home.map(Into::into),
        }
    }

    #[test]
    fn each_repository_has_a_data_directory_of_its_own() {
        let root = tempfile::tempdir().unwrap();
        let (one, two) = (root.path().join("a/shop"), root.path().join("b/shop"));
        fs::create_dir_all(&one).unwrap();
        fs::create_dir_all(&two).unwrap();
        let environment = environment(Some("/state"), Some("/home/me"));
        let of = |folder: &Path| data_dir(None, &environment, folder).unwrap();
        assert!(of(&one).to_str().unwrap().starts_with("/state/ensemble/shop-"));
        assert_eq!(of(&one).file_name().unwrap().len(), "shop-".len() + 8);
        assert_ne!(of(&one), of(&two));
        assert_eq!(of(&one), of(&two.join("../../a/shop")));
    }

    #[test]
    fn a_relative_state_home_is_ignored() {
        let root = tempfile::tempdir().unwrap();
        let found = data_dir(None, &environment(Some("state"), Some("/home/me")), root.path()).unwrap();
        assert!(found.starts_with("/home/me/.local/state/ensemble"), "{}", found.display());
        let error = data_dir(None, &environment(None, None), root.path()).unwrap_err();
        assert!(error.to_string().contains("--data"), "{error}");
    }

    #[test]
    fn a_socket_path_is_never_too_long() {
        let environment = environment(None, None);
        let short = socket(Path::new("/d"), 42, &environment, Path::new("/tmp"));
        assert_eq!(short, PathBuf::from("/d/sock/42.sock"));
        let deep = PathBuf::from(format!("/{}", "x".repeat(120)));
        let elsewhere = socket(&deep, 42, &environment, Path::new("/tmp"));
        assert!(elsewhere.starts_with("/run/user/7"), "{}", elsewhere.display());
        let nowhere = socket(&deep, 42, &Environment::default(), Path::new("/tmp"));
        assert!(nowhere.starts_with("/tmp") && nowhere.as_os_str().len() <= SOCKET_LIMIT);
    }
}
