//! `ensemble fetch`: brings a run's branch into the repository, where that was not possible at its end.

use crate::{
    args::{Fetch, Format},
    client::Client,
    embedded::Embedded,
    error::{Error, Exit},
    home, output,
    owner::Existing,
};

/// Brings a run's branch home.
///
/// # Errors
/// When it can't be brought.
pub async fn fetch(args: &Fetch) -> Result<Exit, Error> {
    let existing = Existing::find(&args.place, &args.run).await?;
    let (state, repository, data) = (&existing.state, existing.repository.as_ref(), &existing.data);
    let into = args.into.as_deref();
    let owner = existing.owner()?;
    let pid = owner.as_ref().map(|owner| owner.pid);
    let home = if let Some(owner) = owner {
        let client = Client::of_socket(&owner.socket).await?;
        home::bring(&client, repository, state, into, data).await
    } else {
        let embedded = Embedded::start(data, &existing.journal, None).await?;
        let home = home::bring(embedded.client(), repository, state, into, data).await;
        embedded.shutdown().await;
        home
    };
    match args.output.format {
        Format::Json => {
            output::result(&output::run_object_beside(state, Some(&home), pid).to_string())?;
        }
        Format::Table => output::result(&output::fetched(state, &home, pid).join("\n"))?,
    }
    let moved = home.into.as_ref().is_none_or(|(_, into)| *into == output::Into::Moved);
    Ok(if home.branch && moved { Exit::Good } else { Exit::Failed })
}
