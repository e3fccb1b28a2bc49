//! `ensemble doctor`: looks at this installation. For now it lists the fault points.

use crate::{
    args::Doctor,
    error::{Error, Exit},
    faults, output,
};

/// Lists the points where tests make ensemble fail.
///
/// # Errors
/// When nobody reads it.
pub async fn doctor(_: &Doctor) -> Result<Exit, Error> {
    output::result(&faults::points().join("\n"))?;
    Ok(Exit::Good)
}
