//! The end of an attempt: reports, verdicts of checks, losses. A node keeps the same bytes on its disk
//! until they are acknowledged, so they are a stored format too.

use ensemble_core::{
    message::{Ended, How},
    outcome::{Ending, Outcome},
    run::fact::{LossCause, Report},
};
use prost::Message;

use crate::{
    convert::{
        Malformed, attempt_key, delivery, need, text, texts, usage, wire_delivery, wire_key, wire_text,
        wire_usage,
    },
    v1,
};

/// The bytes of an end, as they travel and as a node keeps them.
#[must_use]
pub fn encode_ended(ended: &Ended) -> Vec<u8> {
    wire_ended(ended).encode_to_vec()
}

/// The end that these bytes hold.
///
/// # Errors
/// [`Malformed`] when they hold none.
pub fn decode_ended(bytes: &[u8]) -> Result<Ended, Malformed> {
    let wire = v1::Ended::decode(bytes).map_err(|error| Malformed::wrong("ended", error))?;
    ended(wire)
}

pub(crate) fn ended(wire: v1::Ended) -> Result<Ended, Malformed> {
    let key = attempt_key(&need("ended.key", wire.key)?)?;
    let how = match need("ended.how", wire.how)? {
        v1::ended::How::Report(wire) => How::Report(report(wire)?),
        v1::ended::How::Check(wire) => How::Check {
            passed: wire.passed,
            ended: wire.ended,
            output: text(wire.output.unwrap_or_default())?,
        },
        v1::ended::How::Loss(wire) => How::Lost {
            cause: loss_cause(wire.cause())?,
            capture: wire.capture.map(delivery).transpose()?,
            reason: wire.reason,
        },
    };
    Ok(Ended { key, how })
}

pub(crate) fn wire_ended(ended: &Ended) -> v1::Ended {
    let how = match &ended.how {
        How::Report(report) => v1::ended::How::Report(wire_report(report)),
        How::Check { passed, ended, output } => v1::ended::How::Check(v1::CheckResult {
            passed: *passed,
            ended: ended.clone(),
            output: Some(wire_text(output)),
        }),
        How::Lost { cause, capture, reason } => v1::ended::How::Loss(v1::Loss {
            cause: wire_loss_cause(*cause).into(),
            capture: capture.as_ref().map(wire_delivery),
            reason: reason.clone(),
        }),
    };
    v1::Ended { key: Some(wire_key(&ended.key)), how: Some(how) }
}

fn report(wire: v1::Report) -> Result<Report, Malformed> {
    let ending = match wire.ending() {
        v1::Ending::Unspecified => return Err(Malformed::missing("report.ending")),
        v1::Ending::Done => Ending::Done,
        v1::Ending::Revise => Ending::Revise,
        v1::Ending::Blocked => Ending::Blocked,
        v1::Ending::Failed => Ending::Failed,
        v1::Ending::Stopped => Ending::Stopped,
    };
    let artifacts = wire
        .artifacts
        .into_iter()
        .map(|(name, json)| match serde_json::from_str(&json) {
            Ok(value) => Ok((name, value)),
            Err(error) => Err(Malformed::wrong("report.artifacts", error)),
        })
        .collect::<Result<_, _>>()?;
    let outcome = Outcome {
        ending,
        summary: text(wire.summary.unwrap_or_default())?,
        artifacts,
        messages: texts(wire.messages)?,
        blockers: texts(wire.blockers)?,
        usage: usage(wire.usage.unwrap_or_default()),
    };
    let delivery = wire.delivery.map(delivery).transpose()?;
    Ok(Report { outcome, delivery, left_out: wire.left_out, log: None })
}

fn wire_report(report: &Report) -> v1::Report {
    let outcome = &report.outcome;
    let ending = match outcome.ending {
        Ending::Done => v1::Ending::Done,
        Ending::Revise => v1::Ending::Revise,
        Ending::Blocked => v1::Ending::Blocked,
        Ending::Failed => v1::Ending::Failed,
        Ending::Stopped => v1::Ending::Stopped,
    };
    v1::Report {
        ending: ending.into(),
        summary: Some(wire_text(&outcome.summary)),
        artifacts: outcome.artifacts.iter().map(|(name, value)| (name.clone(), value.to_string())).collect(),
        messages: outcome.messages.iter().map(wire_text).collect(),
        blockers: outcome.blockers.iter().map(wire_text).collect(),
        usage: Some(wire_usage(outcome.usage)),
        delivery: report.delivery.as_ref().map(wire_delivery),
        left_out: report.left_out.clone(),
    }
}

fn loss_cause(wire: v1::LossCause) -> Result<LossCause, Malformed> {
    Ok(match wire {
        v1::LossCause::Unspecified => return Err(Malformed::missing("loss.cause")),
        v1::LossCause::Node => LossCause::Node,
        v1::LossCause::Process => LossCause::Process,
        v1::LossCause::Interrupted => LossCause::Interrupted,
        v1::LossCause::Environment => LossCause::Environment,
        v1::LossCause::Refused => LossCause::Refused,
    })
}

fn wire_loss_cause(cause: LossCause) -> v1::LossCause {
    match cause {
        LossCause::Node => v1::LossCause::Node,
        LossCause::Process => v1::LossCause::Process,
        LossCause::Interrupted => v1::LossCause::Interrupted,
        LossCause::Environment => v1::LossCause::Environment,
        LossCause::Refused => v1::LossCause::Refused,
    }
}
