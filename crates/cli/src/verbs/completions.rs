//! `ensemble completions`: a script that lets a shell complete verbs and flags.

use clap::CommandFactory;

use crate::{
    args::{Cli, Completions},
    error::{Error, Exit},
    output,
};

/// Prints a shell's completions.
///
/// # Errors
/// When nobody reads them.
pub fn completions(args: &Completions) -> Result<Exit, Error> {
    output::raw(&script(args))?;
    Ok(Exit::Good)
}

fn script(args: &Completions) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ensemble", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;
    use clap_complete::Shell;

    use super::*;

    #[test]
    fn every_shell_learns_the_verbs_and_their_flags() {
        for shell in Shell::value_variants() {
            let text = String::from_utf8(script(&Completions { shell: *shell })).unwrap();
            assert!(text.contains("prune") && text.contains("older-than"), "{shell}");
        }
    }
}
