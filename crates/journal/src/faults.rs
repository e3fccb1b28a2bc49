//! Fault points: places where a test makes the process fail, before something is stored and after.
//! Without the feature `faults` they cost nothing. A fault before is an error that stored nothing;
//! a fault after, at the same name with `.done`, stored everything but the caller can't know.

use crate::Error;

/// A fault point and its counterpart after the effect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    name: &'static str,
    #[cfg_attr(not(feature = "faults"), allow(dead_code, reason = "read at fault points only"))]
    done: &'static str,
}

/// Around the commit of an append.
pub(crate) const APPEND: Point = Point { name: "journal.append", done: "journal.append.done" };
/// Around the commit of a claim.
pub(crate) const CLAIM: Point = Point { name: "journal.claim", done: "journal.claim.done" };
/// Around the rename that gives a blob its name.
pub(crate) const BLOB: Point = Point { name: "journal.blob", done: "journal.blob.done" };

/// The names of all fault points of this crate, without the `.done` ones.
pub const FAULT_POINTS: &[&str] = &[APPEND.name, CLAIM.name, BLOB.name];

impl Point {
    /// The place before the effect.
    ///
    /// # Errors
    /// [`Error::Injected`] when the point is set to fail.
    pub(crate) fn before(self) -> Result<(), Error> {
        fail::fail_point!(self.name, |_| Err(Error::Injected { point: self.name }));
        Ok(())
    }

    /// The place after the effect.
    ///
    /// # Errors
    /// [`Error::Unknown`] when the point is set to fail.
    pub(crate) fn after(self) -> Result<(), Error> {
        fail::fail_point!(self.done, |_| Err(Error::Unknown {
            detail: format!("fault injected at {}", self.done)
        }));
        Ok(())
    }
}
