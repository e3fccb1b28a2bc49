//! Fault points on request: `ENSEMBLE_FAULT=point:n:abort|error|done-then-error|sleep=MS` makes the n-th
//! pass of a point fail in that way. Only with the feature `faults`; without it a set variable is
//! refused, because a test that believes in it would prove nothing.

use crate::error::Error;

/// The variable.
pub const VARIABLE: &str = "ENSEMBLE_FAULT";

/// What a point does when its turn comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Abort,
    Error,
    DoneThenError,
    Sleep(u64),
}

/// A wish out of the variable.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wish {
    point: String,
    pass: usize,
    act: Act,
}

/// All points of the process, in order.
#[must_use]
pub fn points() -> Vec<&'static str> {
    let mut all = [ensemble_coordinator::fault_points(), ensemble_node::fault_points()].concat();
    all.sort_unstable();
    all.dedup();
    all
}

/// Sets the point that the variable names.
///
/// # Errors
/// [`Error::Usage`] when it can't be understood, names no point, or this build has none.
pub fn install(value: Option<&str>) -> Result<(), Error> {
    match value {
        Some(value) => set(&wish(value, &points())?),
        None => Ok(()),
    }
}

fn wish(value: &str, points: &[&str]) -> Result<Wish, Error> {
    let malformed = || {
        Error::usage(
            format!("{VARIABLE}={value} can't be understood"),
            "write point:n:abort, error, done-then-error or sleep=MS",
        )
    };
    let mut parts = value.split(':');
    let (Some(point), Some(pass), Some(act), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(malformed());
    };
    let pass = pass.parse().ok().filter(|pass| *pass > 0).ok_or_else(malformed)?;
    let act = match (act, act.strip_prefix("sleep=")) {
        ("abort", _) => Act::Abort,
        ("error", _) => Act::Error,
        ("done-then-error", _) => Act::DoneThenError,
        (_, Some(length)) => Act::Sleep(length.parse().map_err(|_| malformed())?),
        _ => return Err(malformed()),
    };
    if !points.contains(&point) {
        let nearest = points
            .iter()
            .max_by(|a, b| strsim::jaro_winkler(a, point).total_cmp(&strsim::jaro_winkler(b, point)));
        let nearest = nearest.map(|name| format!("did you mean `{name}`? ")).unwrap_or_default();
        return Err(Error::usage(
            format!("there is no fault point `{point}`"),
            format!("{nearest}`ensemble doctor --fault-points` lists them"),
        ));
    }
    Ok(Wish { point: point.to_owned(), pass, act })
}

#[cfg(feature = "faults")]
fn set(wish: &Wish) -> Result<(), Error> {
    use std::sync::atomic::{AtomicUsize, Ordering};

    let first = if wish.pass > 1 { format!("{}*off->", wish.pass - 1) } else { String::new() };
    let set = match wish.act {
        Act::Error => fail::cfg(wish.point.as_str(), &format!("{first}1*return->off")),
        Act::DoneThenError => fail::cfg(format!("{}.done", wish.point), &format!("{first}1*return->off")),
        Act::Sleep(length) => fail::cfg(wish.point.as_str(), &format!("{first}1*sleep({length})->off")),
        Act::Abort => {
            let (passes, last) = (AtomicUsize::new(0), wish.pass);
            fail::cfg_callback(wish.point.as_str(), move || {
                if passes.fetch_add(1, Ordering::SeqCst) + 1 == last {
                    std::process::abort();
                }
            })
        }
    };
    set.map_err(|why| Error::usage(format!("{VARIABLE} can't be set: {why}"), "report this"))
}

#[cfg(not(feature = "faults"))]
fn set(wish: &Wish) -> Result<(), Error> {
    Err(Error::usage(
        format!(
            "this build has no fault points, so {} can't be set to {:?} at {}",
            wish.point, wish.act, wish.pass
        ),
        "build it with `--features faults`",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_names_point_pass_and_act() {
        let of = |value| wish(value, &["a.b", "a.c"]).unwrap();
        assert_eq!(of("a.b:3:abort"), Wish { point: "a.b".to_owned(), pass: 3, act: Act::Abort });
        assert_eq!(of("a.c:1:sleep=250").act, Act::Sleep(250));
        assert_eq!(of("a.c:1:done-then-error").act, Act::DoneThenError);
    }

    #[test]
    fn what_can_not_be_understood_is_refused_with_the_nearest_name() {
        for bad in ["a.b", "a.b:0:abort", "a.b:x:abort", "a.b:1:explode", "a.b:1:sleep=x", "a.b:1:abort:2"] {
            assert_eq!(wish(bad, &["a.b"]).unwrap_err().exit() as u8, 2, "{bad}");
        }
        let error = wish("journal.apend:1:abort", &["journal.append", "node.send"]).unwrap_err();
        assert!(error.to_string().contains("`journal.append`"), "{error}");
    }

    #[test]
    fn every_point_is_listed_once() {
        let mut all = points();
        let before = all.len();
        all.dedup();
        assert!(before > 5 && all.len() == before);
    }
}
