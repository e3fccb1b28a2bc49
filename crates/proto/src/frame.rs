//! Frames of a link, both ways, with the first word of each side.

use ensemble_core::{
    ids::{EmployeeId, Epoch, Incarnation},
    link::{Beat, Frame, Greeting},
    message::{Assign, Hello, Inventory, ToCoordinator, ToNode, Welcome, What, Work},
    plan::WorktreeMode,
};

use prost::Message;

use crate::{
    convert::{Malformed, attempt_key, need, parse, wire_key},
    report::{ended, wire_ended},
    v1,
};

/// What a node's frame is: its first word, or a frame of the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeFirst {
    /// The first word.
    Hello(Box<Hello>),
    /// A frame of the link.
    Frame(Frame<ToCoordinator>),
}

/// What a coordinator's frame is: its first word, or a frame of the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoordinatorFirst {
    /// The first word.
    Welcome(Box<Welcome>),
    /// A frame of the link.
    Frame(Frame<ToNode>),
}

fn beat(number: u64) -> Option<Beat> {
    (number > 0).then_some(Beat(number))
}

fn wire_beat(beat: Option<Beat>) -> u64 {
    beat.map_or(0, |beat| beat.0)
}

fn greeting(wire: Option<v1::Greeting>) -> Result<Greeting, Malformed> {
    let wire = need("greeting", wire)?;
    let of = (wire.of > 0).then_some(Incarnation(wire.of));
    Ok(Greeting { from: Incarnation(wire.incarnation), of, last: wire.last })
}

fn wire_greeting(greeting: Greeting) -> v1::Greeting {
    v1::Greeting { incarnation: greeting.from.0, of: greeting.of.map_or(0, |of| of.0), last: greeting.last }
}

/// The first word of a node.
#[must_use]
pub fn wire_hello(hello: &Hello) -> v1::NodeFrame {
    let body = v1::node_frame::Body::Hello(v1::Hello {
        node: hello.node.to_string(),
        protocol: hello.protocol,
        greeting: Some(wire_greeting(hello.greeting)),
        employees: wire_slots(&hello.employees),
        check_slots: hello.check_slots,
    });
    v1::NodeFrame { body: Some(body), ..Default::default() }
}

fn wire_slots(employees: &[(EmployeeId, u32)]) -> Vec<v1::EmployeeSlots> {
    let one = |(employee, slots): &(EmployeeId, u32)| v1::EmployeeSlots {
        employee: employee.to_string(),
        slots: *slots,
    };
    employees.iter().map(one).collect()
}

fn slots(field: &'static str, wire: &[v1::EmployeeSlots]) -> Result<Vec<(EmployeeId, u32)>, Malformed> {
    wire.iter().map(|one| Ok((parse(field, &one.employee)?, one.slots))).collect()
}

/// The first word of a coordinator.
#[must_use]
pub fn wire_welcome(welcome: &Welcome) -> v1::CoordinatorFrame {
    let body = v1::coordinator_frame::Body::Welcome(v1::Welcome {
        coordinator: welcome.coordinator.to_string(),
        protocol: welcome.protocol,
        greeting: Some(wire_greeting(welcome.greeting)),
    });
    v1::CoordinatorFrame { body: Some(body), ..Default::default() }
}

/// What a node's frame holds, the first word included.
///
/// # Errors
/// [`Malformed`] when it breaks the protocol.
pub fn node_first(wire: v1::NodeFrame) -> Result<NodeFirst, Malformed> {
    let Some(v1::node_frame::Body::Hello(hello)) = wire.body else {
        return node_frame(wire).map(NodeFirst::Frame);
    };
    Ok(NodeFirst::Hello(Box::new(Hello {
        node: parse("hello.node", &hello.node)?,
        protocol: hello.protocol,
        greeting: greeting(hello.greeting)?,
        employees: slots("hello.employees", &hello.employees)?,
        check_slots: hello.check_slots,
    })))
}

/// What a coordinator's frame holds, the first word included.
///
/// # Errors
/// [`Malformed`] when it breaks the protocol.
pub fn coordinator_first(wire: v1::CoordinatorFrame) -> Result<CoordinatorFirst, Malformed> {
    let Some(v1::coordinator_frame::Body::Welcome(welcome)) = wire.body else {
        return coordinator_frame(wire).map(CoordinatorFirst::Frame);
    };
    Ok(CoordinatorFirst::Welcome(Box::new(Welcome {
        coordinator: parse("welcome.coordinator", &welcome.coordinator)?,
        protocol: welcome.protocol,
        greeting: greeting(welcome.greeting)?,
    })))
}

/// A node's frame of the link.
///
/// # Errors
/// [`Malformed`] when it breaks the protocol.
pub fn node_frame(wire: v1::NodeFrame) -> Result<Frame<ToCoordinator>, Malformed> {
    let body = wire.body.map(to_coordinator).transpose()?;
    let (heartbeat, answer) = (beat(wire.heartbeat), beat(wire.answer));
    Ok(Frame { seq: wire.seq, ack: wire.ack, body, heartbeat, answer })
}

/// A node's frame of the link, for the wire.
#[must_use]
pub fn wire_node_frame(frame: &Frame<ToCoordinator>) -> v1::NodeFrame {
    v1::NodeFrame {
        seq: frame.seq,
        ack: frame.ack,
        heartbeat: wire_beat(frame.heartbeat),
        answer: wire_beat(frame.answer),
        body: frame.body.as_ref().map(wire_to_coordinator),
    }
}

/// A coordinator's frame of the link.
///
/// # Errors
/// [`Malformed`] when it breaks the protocol.
pub fn coordinator_frame(wire: v1::CoordinatorFrame) -> Result<Frame<ToNode>, Malformed> {
    let body = wire.body.map(to_node).transpose()?;
    let (heartbeat, answer) = (beat(wire.heartbeat), beat(wire.answer));
    Ok(Frame { seq: wire.seq, ack: wire.ack, body, heartbeat, answer })
}

/// A coordinator's frame of the link, for the wire.
#[must_use]
pub fn wire_coordinator_frame(frame: &Frame<ToNode>) -> v1::CoordinatorFrame {
    v1::CoordinatorFrame {
        seq: frame.seq,
        ack: frame.ack,
        heartbeat: wire_beat(frame.heartbeat),
        answer: wire_beat(frame.answer),
        body: frame.body.as_ref().map(wire_to_node),
    }
}

fn to_coordinator(body: v1::node_frame::Body) -> Result<ToCoordinator, Malformed> {
    use v1::node_frame::Body;
    Ok(match body {
        Body::Hello(_) => return Err(Malformed::wrong("body", "is a Hello after the first frame")),
        Body::Inventory(wire) => ToCoordinator::Inventory(Inventory {
            run: parse("inventory.run", &wire.run)?,
            epoch: Epoch(wire.epoch),
            running: wire.running.iter().map(attempt_key).collect::<Result<_, _>>()?,
            ended: wire.ended.iter().map(attempt_key).collect::<Result<_, _>>()?,
            speaks_for: wire
                .speaks_for
                .iter()
                .map(|node| parse("inventory.speaks_for", node))
                .collect::<Result<_, _>>()?,
        }),
        Body::Started(wire) => ToCoordinator::Started(attempt_key(&need("started.key", wire.key)?)?),
        Body::Refused(wire) => {
            ToCoordinator::Refused { key: attempt_key(&need("refused.key", wire.key)?)?, reason: wire.reason }
        }
        Body::Slots(wire) => ToCoordinator::Slots {
            employees: slots("slots.employees", &wire.employees)?,
            check_slots: wire.check_slots,
            reason: wire.reason,
        },
        Body::Ended(wire) => ToCoordinator::Ended(Box::new(ended(wire)?)),
    })
}

fn wire_to_coordinator(body: &ToCoordinator) -> v1::node_frame::Body {
    use v1::node_frame::Body;
    match body {
        ToCoordinator::Inventory(inventory) => Body::Inventory(v1::Inventory {
            run: inventory.run.to_string(),
            epoch: inventory.epoch.0,
            running: inventory.running.iter().map(wire_key).collect(),
            ended: inventory.ended.iter().map(wire_key).collect(),
            speaks_for: inventory.speaks_for.iter().map(ToString::to_string).collect(),
        }),
        ToCoordinator::Started(key) => Body::Started(v1::Started { key: Some(wire_key(key)) }),
        ToCoordinator::Refused { key, reason } => {
            Body::Refused(v1::Refused { key: Some(wire_key(key)), reason: reason.clone() })
        }
        ToCoordinator::Slots { employees, check_slots, reason } => Body::Slots(v1::Slots {
            employees: wire_slots(employees),
            check_slots: *check_slots,
            reason: reason.clone(),
        }),
        ToCoordinator::Ended(ended) => Body::Ended(wire_ended(ended)),
    }
}

fn to_node(body: v1::coordinator_frame::Body) -> Result<ToNode, Malformed> {
    use v1::coordinator_frame::Body;
    Ok(match body {
        Body::Welcome(_) => return Err(Malformed::wrong("body", "is a Welcome after the first frame")),
        Body::Claimed(wire) => {
            ToNode::Claimed { run: parse("claimed.run", &wire.run)?, epoch: Epoch(wire.epoch) }
        }
        Body::Assign(wire) => ToNode::Assign(Box::new(assign(wire)?)),
        Body::Stop(wire) => ToNode::Stop(attempt_key(&need("stop.key", wire.key)?)?),
        Body::Receipt(wire) => ToNode::Receipt(attempt_key(&need("receipt.key", wire.key)?)?),
    })
}

fn wire_to_node(body: &ToNode) -> v1::coordinator_frame::Body {
    use v1::coordinator_frame::Body;
    match body {
        ToNode::Claimed { run, epoch } => Body::Claimed(v1::Claimed { run: run.to_string(), epoch: epoch.0 }),
        ToNode::Assign(assign) => Body::Assign(wire_assign(assign)),
        ToNode::Stop(key) => Body::Stop(v1::Stop { key: Some(wire_key(key)) }),
        ToNode::Receipt(key) => Body::Receipt(v1::Receipt { key: Some(wire_key(key)) }),
    }
}

/// The bytes of an assignment, as a node keeps it on its disk.
#[must_use]
pub fn encode_assign(assign: &Assign) -> Vec<u8> {
    wire_assign(assign).encode_to_vec()
}

/// The assignment that these bytes hold.
///
/// # Errors
/// [`Malformed`] when they hold none.
pub fn decode_assign(bytes: &[u8]) -> Result<Assign, Malformed> {
    assign(v1::Assign::decode(bytes).map_err(|error| Malformed::wrong("assign", error))?)
}

fn assign(wire: v1::Assign) -> Result<Assign, Malformed> {
    let what = match need("assign.what", wire.what)? {
        v1::assign::What::Check(check) => What::Check { command: check.command },
        v1::assign::What::Work(work) => What::Work(Work {
            employee: parse("work.employee", &work.employee)?,
            worktree: match work.worktree() {
                v1::WorktreeMode::Unspecified => None,
                v1::WorktreeMode::Write => Some(WorktreeMode::Write),
                v1::WorktreeMode::Read => Some(WorktreeMode::Read),
                v1::WorktreeMode::None => Some(WorktreeMode::None),
            },
            title: work.title,
            brief: work.brief,
            context: work.context,
            outputs: work.outputs,
            previous: work
                .previous
                .map(|kept| Ok((kept.name, parse("work.previous", &kept.commit)?)))
                .transpose()?,
        }),
    };
    Ok(Assign {
        key: attempt_key(&need("assign.key", wire.key)?)?,
        epoch: Epoch(wire.epoch),
        timeout_ms: wire.timeout_ms,
        repository: parse("assign.repository", &wire.repository)?,
        base: parse("assign.base", &wire.base)?,
        traceparent: wire.traceparent,
        what,
    })
}

fn wire_assign(assign: &Assign) -> v1::Assign {
    let what = match &assign.what {
        What::Check { command } => v1::assign::What::Check(v1::Check { command: command.clone() }),
        What::Work(work) => {
            let worktree = match work.worktree {
                None => v1::WorktreeMode::Unspecified,
                Some(WorktreeMode::Write) => v1::WorktreeMode::Write,
                Some(WorktreeMode::Read) => v1::WorktreeMode::Read,
                Some(WorktreeMode::None) => v1::WorktreeMode::None,
            };
            v1::assign::What::Work(v1::Work {
                employee: work.employee.to_string(),
                title: work.title.clone(),
                brief: work.brief.clone(),
                context: work.context.clone(),
                worktree: worktree.into(),
                outputs: work.outputs.clone(),
                previous: work
                    .previous
                    .as_ref()
                    .map(|(name, commit)| v1::KeptWork { name: name.clone(), commit: commit.to_string() }),
            })
        }
    };
    v1::Assign {
        key: Some(wire_key(&assign.key)),
        epoch: assign.epoch.0,
        timeout_ms: assign.timeout_ms,
        repository: assign.repository.to_string(),
        base: assign.base.to_string(),
        traceparent: assign.traceparent.clone(),
        what: Some(what),
    }
}
