//! Two links over a channel that loses, copies and reorders frames, with connections that break at
//! either end and processes that start anew; checked after every action against a plain model.

use std::{cell::RefCell, collections::BTreeMap};

use proptest::{prelude::*, test_runner::TestRunner};

use super::*;

const WINDOW: usize = 4;
const QUEUE: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Node,
    Coordinator,
}

#[derive(Clone, Debug)]
enum Action {
    Send(End),
    /// To this end, the frame at this place of the wire.
    Deliver(End, usize),
    Drop(End, usize),
    Copy(End, usize),
    Wait(u64),
    /// Time passes, and the next input comes before the shell has looked at the clock.
    Sleep(u64),
    /// This end notices that the connection is gone.
    Break(End),
    /// The node dials and greets; the coordinator's greeting stays on its way.
    Dial,
    /// It arrives.
    Greet,
    Restart(End),
}

fn action() -> impl Strategy<Value = Action> {
    let end = || prop_oneof![Just(End::Node), Just(End::Coordinator)];
    let place = || prop_oneof![Just(0), any::<usize>()];
    prop_oneof![
        10 => end().prop_map(Action::Send),
        30 => (end(), place()).prop_map(|(end, place)| Action::Deliver(end, place)),
        4 => (end(), place()).prop_map(|(end, place)| Action::Drop(end, place)),
        4 => (end(), place()).prop_map(|(end, place)| Action::Copy(end, place)),
        8 => (0u64..2_500).prop_map(Action::Wait),
        1 => (0u64..12_000).prop_map(Action::Wait),
        1 => (0u64..12_000).prop_map(Action::Sleep),
        1 => end().prop_map(Action::Break),
        2 => Just(Action::Dial),
        4 => Just(Action::Greet),
        1 => end().prop_map(Action::Restart),
    ]
}

/// How often something happened, so that a test in which nothing happens is noticed.
#[derive(Debug, Default)]
struct Tally(BTreeMap<&'static str, usize>);

impl Tally {
    fn count(&mut self, what: &'static str, times: usize) {
        *self.0.entry(what).or_default() += times;
    }
}

/// One process, and what the model knows of it.
struct Process {
    link: Link<u64>,
    start: Incarnation,
    /// Accepted before it knew its first peer.
    unaddressed: Vec<u64>,
    /// Whether the shell was told that the link is up.
    told_up: bool,
    /// Heartbeats sent on this connection.
    beats: BTreeMap<Beat, Millis>,
    /// From where the lease counts, and who gave it.
    counts_from: Option<(Millis, Incarnation)>,
}

impl Process {
    fn new(side: Side, start: u64, now: Millis) -> Self {
        let config = Config { window: WINDOW, queue: QUEUE, ..Config::of(side, TTL) };
        let start = Incarnation(start);
        Self {
            link: Link::new(config, start, now),
            start,
            unaddressed: Vec::new(),
            told_up: false,
            beats: BTreeMap::new(),
            counts_from: None,
        }
    }
}

struct World {
    now: Millis,
    node: Process,
    coordinator: Process,
    to_node: Vec<Frame<u64>>,
    to_coordinator: Vec<Frame<u64>>,
    greeting: Option<Greeting>,
    starts: u64,
    bodies: u64,
    /// By sender's and receiver's start.
    accepted: BTreeMap<(Incarnation, Incarnation), Vec<u64>>,
    delivered: BTreeMap<(Incarnation, Incarnation), Vec<u64>>,
    tally: Tally,
}

impl World {
    fn new() -> Self {
        let now = Millis(1_000_000);
        Self {
            now,
            node: Process::new(Side::Holder, 1, now),
            coordinator: Process::new(Side::Granter, 2, now),
            to_node: Vec::new(),
            to_coordinator: Vec::new(),
            greeting: None,
            starts: 2,
            bodies: 0,
            accepted: BTreeMap::new(),
            delivered: BTreeMap::new(),
            tally: Tally::default(),
        }
    }

    fn process(&mut self, end: End) -> &mut Process {
        match end {
            End::Node => &mut self.node,
            End::Coordinator => &mut self.coordinator,
        }
    }

    fn wire_to(&mut self, end: End) -> &mut Vec<Frame<u64>> {
        match end {
            End::Node => &mut self.to_node,
            End::Coordinator => &mut self.to_coordinator,
        }
    }

    fn act(&mut self, action: &Action) {
        let now = self.now;
        match *action {
            Action::Send(end) => self.send(end),
            Action::Deliver(end, place) => {
                if let Some(frame) = self.pick(end, place) {
                    self.deliver(end, frame);
                }
            }
            Action::Drop(end, place) => {
                let dropped = self.pick(end, place).is_some();
                self.tally.count("dropped", usize::from(dropped));
            }
            Action::Copy(end, place) => {
                let wire = self.wire_to(end);
                if let Some(place) = place.checked_rem(wire.len()) {
                    wire.push(wire[place].clone());
                    self.tally.count("copied", 1);
                }
            }
            Action::Wait(length) => self.now = now.after(Millis(length)),
            Action::Sleep(length) => {
                self.now = now.after(Millis(length));
                return;
            }
            Action::Break(end) => self.process(end).link.detach(now),
            Action::Dial => self.dial(),
            Action::Greet => {
                if let Some(greeting) = self.greeting.take() {
                    self.attach(End::Node, greeting);
                }
            }
            Action::Restart(end) => self.restart(end),
        }
        self.settle();
    }

    fn pick(&mut self, end: End, place: usize) -> Option<Frame<u64>> {
        let wire = self.wire_to(end);
        let place = place.checked_rem(wire.len())?;
        Some(wire.remove(place))
    }

    fn send(&mut self, end: End) {
        self.bodies += 1;
        let body = self.bodies;
        let process = self.process(end);
        if process.link.send(body).is_err() {
            assert_eq!(process.link.queued(), QUEUE);
            self.tally.count("refused", 1);
            return;
        }
        match process.link.peer() {
            None => process.unaddressed.push(body),
            Some(peer) => {
                let pair = (process.start, peer);
                self.accepted.entry(pair).or_default().push(body);
            }
        }
    }

    fn deliver(&mut self, end: End, frame: Frame<u64>) {
        let (now, coordinator) = (self.now, self.coordinator.start);
        let process = self.process(end);
        let (seq, beat) = (frame.seq, frame.answer);
        let received = process.link.receive(frame, now);
        let connected = process.link.state().connected();
        let honest = [None, Some(Rejected::NoConnection)];
        assert!(honest.contains(&received.rejected), "{:?}", received.rejected);
        assert_eq!(received.rejected.is_none(), connected);
        let sent = beat.and_then(|beat| process.beats.get(&beat)).copied();
        let counts = sent.filter(|_| connected);
        process.counts_from = process.counts_from.max(counts.map(|sent| (sent, coordinator)));
        let pair = process.link.peer().map(|peer| (peer, process.start));
        let early = usize::from(seq > process.link.last_received());
        self.tally.count("kept early", early * usize::from(connected));
        self.tally.count("not taken", usize::from(!connected));
        self.tally.count("delivered", received.bodies.len());
        let Some(pair) = pair else { return };
        let delivered = self.delivered.entry(pair).or_default();
        delivered.extend(received.bodies);
        let accepted = self.accepted.get(&pair).map_or(&[][..], Vec::as_slice);
        assert!(accepted.starts_with(delivered), "{pair:?}: {delivered:?} of {accepted:?}");
    }

    fn dial(&mut self) {
        self.node.link.detach(self.now);
        self.to_node.clear();
        self.to_coordinator.clear();
        let greeting = self.node.link.greeting();
        self.attach(End::Coordinator, greeting);
        self.greeting = Some(self.coordinator.link.greeting());
    }

    fn attach(&mut self, end: End, greeting: Greeting) {
        let now = self.now;
        let process = self.process(end);
        let before = process.link.peer();
        let in_flight = process.link.in_flight();
        let returned = process.link.attach(greeting, now).unwrap();
        process.beats.clear();
        let start = process.start;
        if before.is_none() {
            let early = std::mem::take(&mut process.unaddressed);
            self.accepted.entry((start, greeting.from)).or_default().extend(early);
        }
        if before.is_some_and(|before| before != greeting.from) {
            let accepted = &self.accepted.entry((start, before.unwrap())).or_default();
            assert!(accepted.ends_with(&returned), "{returned:?} of {accepted:?}");
            assert!(returned.len() >= in_flight);
            self.tally.count("returned", returned.len());
        } else {
            assert!(returned.is_empty());
            self.tally.count("resent", in_flight);
        }
    }

    fn restart(&mut self, end: End) {
        self.starts += 1;
        let (starts, now) = (self.starts, self.now);
        let side = match end {
            End::Node => Side::Holder,
            End::Coordinator => Side::Granter,
        };
        *self.process(end) = Process::new(side, starts, now);
        self.to_node.clear();
        self.to_coordinator.clear();
        if end == End::Node {
            // The old coordinator's greeting may still reach a node that lives, but no new process.
            self.greeting = None;
        }
        self.tally.count("restarted", 1);
    }

    /// What every shell does after an input; then the model's view is compared.
    fn settle(&mut self) {
        let now = self.now;
        for end in [End::Node, End::Coordinator] {
            let frames = self.process(end).link.outgoing(now);
            let events = self.process(end).link.tick(now);
            let process = self.process(end);
            for frame in &frames {
                if let Some(beat) = frame.heartbeat {
                    assert!(process.beats.insert(beat, now).is_none());
                }
                if frame.answer.is_some() {
                    process.counts_from = Some((now, process.start));
                }
            }
            let mut hung_up = 0;
            for event in &events {
                match event {
                    Event::Up => assert!(!std::mem::replace(&mut process.told_up, true)),
                    Event::Down => assert!(std::mem::replace(&mut process.told_up, false)),
                    Event::HangUp => {
                        hung_up += 1;
                        assert!(!process.link.state().connected());
                        process.link.detach(now);
                    }
                }
            }
            Self::check(process, now);
            self.tally.count("hung up", hung_up);
            self.tally.count("down", events.iter().filter(|event| **event == Event::Down).count());
            let other = if end == End::Node { End::Coordinator } else { End::Node };
            self.wire_to(other).extend(frames);
        }
        // No coordinator takes for dead whom it told that it lives.
        if self.node.link.is_up(now) {
            let (_, granter) = self.node.counts_from.unwrap();
            assert!(granter != self.coordinator.start || self.coordinator.link.is_up(now));
        }
    }

    fn check(process: &Process, now: Millis) {
        let link = &process.link;
        // Down exactly from one TTL after the last answered heartbeat, and told at the first look.
        let end = process.counts_from.map(|(from, _)| from.after(TTL));
        let up = end.is_some_and(|end| now < end);
        assert_eq!(link.is_up(now), up, "{:?} at {now:?}, end {end:?}", link.state());
        assert_eq!(process.told_up, up);
        if up {
            assert_eq!(link.valid_until(), end);
            assert!(link.next_wake(now) <= end, "the end of the lease can't be slept over");
        } else if end.is_some() {
            assert_eq!(link.down_since(now), end);
        }
        assert!(link.in_flight() <= WINDOW && link.queued() <= QUEUE && link.early() < WINDOW);
        // All that could be done was done.
        assert!(link.next_wake(now).is_none_or(|wake| wake > now), "{:?}", link.next_wake(now));
    }

    /// From now on frames arrive in order, and a broken connection is dialled again.
    fn heal(&mut self) {
        self.settle();
        let healed = self.now;
        while self.now <= healed.after(TTL) {
            if !self.node.link.state().connected() || !self.coordinator.link.state().connected() {
                self.act(&Action::Dial);
                self.act(&Action::Greet);
            }
            while !(self.to_node.is_empty() && self.to_coordinator.is_empty()) {
                self.act(&Action::Deliver(End::Node, 0));
                self.act(&Action::Deliver(End::Coordinator, 0));
            }
            let idle = |link: &Link<u64>| link.in_flight() + link.queued() + link.early() == 0;
            let both = [&self.node.link, &self.coordinator.link];
            if both.iter().all(|link| idle(link) && link.is_up(self.now)) {
                return self.all_arrived();
            }
            let wake = both.iter().filter_map(|link| link.next_wake(self.now)).min().unwrap();
            self.act(&Action::Wait(wake.0 - self.now.0));
        }
        panic!("not healed after a TTL: {:?} {:?}", self.node.link, self.coordinator.link);
    }

    fn all_arrived(&self) {
        let (node, coordinator) = (self.node.start, self.coordinator.start);
        for pair in [(node, coordinator), (coordinator, node)] {
            let accepted = self.accepted.get(&pair).map_or(&[][..], Vec::as_slice);
            let delivered = self.delivered.get(&pair).map_or(&[][..], Vec::as_slice);
            assert_eq!(accepted, delivered);
        }
    }
}

fn play(actions: &[Action]) -> Tally {
    let mut world = World::new();
    world.act(&Action::Dial);
    world.act(&Action::Greet);
    for action in actions {
        world.act(action);
    }
    world.heal();
    world.tally
}

#[test]
fn a_link_that_is_broken_one_way_is_down_at_both_ends_after_two_leases() {
    for deaf in [End::Node, End::Coordinator] {
        let mut world = World::new();
        world.heal();
        for _ in 0..(2 * TTL.0 / 500) {
            world.wire_to(deaf).clear();
            world.act(&Action::Deliver(if deaf == End::Node { End::Coordinator } else { End::Node }, 0));
            if deaf == End::Node && !world.node.link.state().connected() {
                world.act(&Action::Dial);
            }
            world.act(&Action::Wait(500));
        }
        let up = [&world.node, &world.coordinator].map(|end| end.link.is_up(world.now));
        assert_eq!(up, [false, false], "{deaf:?} hears nothing");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_body_arrives_once_in_order_and_the_lease_ends_when_it_should(
        actions in proptest::collection::vec(action(), 0..400),
    ) {
        play(&actions);
    }
}

#[test]
fn the_chaos_reaches_every_corner() {
    let total = RefCell::new(Tally::default());
    TestRunner::deterministic()
        .run(&proptest::collection::vec(action(), 200..400), |actions| {
            for (what, times) in play(&actions).0 {
                total.borrow_mut().count(what, times);
            }
            Ok(())
        })
        .unwrap();
    let total = total.into_inner();
    for what in [
        "delivered",
        "dropped",
        "copied",
        "kept early",
        "refused",
        "resent",
        "returned",
        "restarted",
        "down",
        "hung up",
        "not taken",
    ] {
        assert!(total.0.get(what).is_some_and(|times| *times >= 100), "{what}: {total:?}");
    }
}
