//! The link as a specification: single rules here, two links over a hostile channel in `chaos`.

mod chaos;

use super::*;

const TTL: Millis = Millis(9_000);

fn config(side: Side) -> Config {
    Config { window: 2, queue: 3, ..Config::of(side, TTL) }
}

fn greeting(from: u64, of: Option<u64>, last: u64) -> Greeting {
    Greeting { from: Incarnation(from), of: of.map(Incarnation), last }
}

/// A node of start 1, attached at 0 to a coordinator of start 7, and the first heartbeat sent.
fn holder() -> Link<&'static str> {
    let mut link = Link::new(config(Side::Holder), Incarnation(1), Millis(0));
    assert!(link.attach(greeting(7, Some(1), 0), Millis(0)).unwrap().is_empty());
    assert_eq!(link.outgoing(Millis(0)), [Frame { heartbeat: Some(Beat(1)), ..bare(0) }]);
    link
}

/// A coordinator of start 7, attached at 0 to a node of start 1.
fn granter() -> Link<&'static str> {
    let mut link = Link::new(config(Side::Granter), Incarnation(7), Millis(0));
    assert!(link.attach(greeting(1, None, 0), Millis(0)).unwrap().is_empty());
    link
}

fn bare(ack: u64) -> Frame<&'static str> {
    Frame { seq: 0, ack, body: None, heartbeat: None, answer: None }
}

fn numbered(seq: u64, body: &'static str) -> Frame<&'static str> {
    Frame { seq, body: Some(body), ..bare(0) }
}

fn answer(beat: u64) -> Frame<&'static str> {
    Frame { answer: Some(Beat(beat)), ..bare(0) }
}

fn heartbeat(beat: u64) -> Frame<&'static str> {
    Frame { heartbeat: Some(Beat(beat)), ..bare(0) }
}

fn bodies(frames: &[Frame<&'static str>]) -> Vec<(u64, &'static str)> {
    frames.iter().filter_map(|frame| frame.body.map(|body| (frame.seq, body))).collect()
}

fn taken<B>(received: Received<B>) -> Vec<B> {
    assert_eq!(received.rejected, None);
    received.bodies
}

#[test]
fn a_holder_counts_from_the_sending_of_the_heartbeat_that_was_answered() {
    let mut link = holder();
    assert!(!link.is_up(Millis(0)), "an attachment alone proves nothing");
    assert_eq!(link.next_wake(Millis(0)), Some(Millis(3_000)));
    assert_eq!(link.outgoing(Millis(3_000)), [Frame { heartbeat: Some(Beat(2)), ..bare(0) }]);
    assert!(taken(link.receive(answer(1), Millis(5_000))).is_empty());
    assert_eq!(link.valid_until(), Some(Millis(9_000)));
    assert_eq!(link.tick(Millis(5_000)), [Event::Up]);
    assert!(taken(link.receive(answer(2), Millis(5_500))).is_empty());
    assert_eq!(link.valid_until(), Some(Millis(12_000)));
    assert!(link.is_up(Millis(11_999)));
    assert_eq!(link.tick(Millis(11_999)), []);
    assert_eq!(link.tick(Millis(12_000)), [Event::Down, Event::HangUp]);
    assert_eq!(link.down_since(Millis(12_500)), Some(Millis(12_000)));
}

#[test]
fn a_granter_counts_from_its_answer() {
    let mut link = granter();
    assert!(taken(link.receive(heartbeat(1), Millis(100))).is_empty());
    assert!(!link.is_up(Millis(100)), "not answered yet");
    assert_eq!(link.next_wake(Millis(100)), Some(Millis(100)));
    assert_eq!(link.outgoing(Millis(250)), [answer(1)]);
    assert_eq!(link.tick(Millis(250)), [Event::Up]);
    // A copy is not answered again.
    assert!(taken(link.receive(heartbeat(1), Millis(300))).is_empty());
    assert_eq!(link.outgoing(Millis(300)), []);
    assert_eq!(link.next_wake(Millis(300)), Some(Millis(9_250)));
    assert_eq!(link.tick(Millis(9_250)), [Event::Down, Event::HangUp]);
}

#[test]
fn an_answer_after_the_end_of_the_lease_does_not_hide_the_end() {
    let mut link = holder();
    assert!(taken(link.receive(answer(1), Millis(10))).is_empty());
    assert_eq!(link.tick(Millis(10)), [Event::Up]);
    assert_eq!(link.outgoing(Millis(8_000)), [heartbeat(2)]);
    // The shell slept; the answer to a heartbeat that is young enough was waiting.
    assert_eq!(link.receive(answer(2), Millis(9_500)).rejected, Some(Rejected::NoConnection));
    assert_eq!(link.tick(Millis(9_500)), [Event::Down, Event::HangUp]);
}

#[test]
fn a_connection_that_was_given_up_carries_nothing_any_more() {
    let mut link = granter();
    assert_eq!(link.tick(Millis(9_000)), [Event::HangUp]);
    assert_eq!(link.receive(heartbeat(1), Millis(9_001)).rejected, Some(Rejected::NoConnection));
    assert_eq!(link.outgoing(Millis(9_001)), []);
    assert_eq!(link.next_wake(Millis(9_001)), None);
    assert_eq!(link.state(), State::Down { since: Millis(0) });
}

#[test]
fn a_broken_connection_is_no_broken_lease() {
    let mut link = holder();
    assert!(taken(link.receive(answer(1), Millis(10))).is_empty());
    link.detach(Millis(1_000));
    assert_eq!(link.state(), State::Severed { until: Millis(9_000) });
    assert!(link.is_up(Millis(8_999)));
    assert_eq!(link.next_wake(Millis(8_999)), Some(Millis(8_999)), "Up was not heard yet");
    assert_eq!(link.tick(Millis(8_999)), [Event::Up]);
    assert!(link.attach(greeting(7, Some(1), 0), Millis(8_999)).unwrap().is_empty());
    assert_eq!(link.outgoing(Millis(8_999)), [heartbeat(2)]);
    // The lease runs out, the new connection keeps its own patience.
    assert_eq!(link.tick(Millis(9_000)), [Event::Down]);
    assert!(taken(link.receive(answer(2), Millis(9_100))).is_empty());
    assert_eq!(link.tick(Millis(9_100)), [Event::Up]);
}

#[test]
fn a_new_connection_is_proven_at_once_and_by_itself() {
    let mut link = holder();
    assert!(link.attach(greeting(7, Some(1), 0), Millis(500)).unwrap().is_empty());
    assert_eq!(link.outgoing(Millis(500)), [heartbeat(2)], "though the last one was just sent");
    assert!(taken(link.receive(answer(1), Millis(600))).is_empty());
    assert!(!link.is_up(Millis(600)), "an answer to what another connection carried");
    assert!(taken(link.receive(answer(2), Millis(700))).is_empty());
    assert_eq!(link.valid_until(), Some(Millis(9_500)));
}

#[test]
fn an_answer_is_owed_only_on_the_connection_of_its_heartbeat() {
    let mut link = granter();
    assert!(taken(link.receive(heartbeat(4), Millis(1))).is_empty());
    assert!(link.attach(greeting(1, Some(7), 0), Millis(2)).unwrap().is_empty());
    assert_eq!(link.outgoing(Millis(2)), []);
    assert!(!link.is_up(Millis(2)));
    // A restarted node counts its heartbeats from 1 again.
    assert!(link.attach(greeting(2, None, 0), Millis(3)).unwrap().is_empty());
    assert!(taken(link.receive(heartbeat(1), Millis(4))).is_empty());
    assert_eq!(link.outgoing(Millis(4)), [answer(1)]);
}

#[test]
fn a_shell_that_looks_seldom_hears_of_a_flapping_link_once() {
    let mut link = Link::<()>::new(config(Side::Holder), Incarnation(1), Millis(0));
    for round in 0..5 {
        let start = round * 20_000;
        assert!(link.attach(greeting(7, Some(1), 0), Millis(start)).unwrap().is_empty());
        assert_eq!(link.outgoing(Millis(start)).len(), 1);
        let frame = Frame { seq: 0, ack: 0, body: None, heartbeat: None, answer: Some(Beat(round + 1)) };
        assert!(taken(link.receive(frame, Millis(start))).is_empty());
    }
    assert_eq!(link.tick(Millis(80_000)), [Event::Up]);
    assert_eq!(link.tick(Millis(80_001)), []);
    assert_eq!(link.tick(Millis(90_000)), [Event::Down, Event::HangUp]);
}

#[test]
fn credits_bound_what_is_in_flight_and_the_queue_what_waits() {
    let mut link = granter();
    for body in ["a", "b", "c"] {
        link.send(body).unwrap();
    }
    assert_eq!(link.send("d"), Err(Refused("d")));
    assert_eq!(bodies(&link.outgoing(Millis(1))), [(1, "a"), (2, "b")]);
    assert_eq!((link.in_flight(), link.queued()), (2, 1));
    assert_eq!(link.outgoing(Millis(2)), [], "no credit");
    assert!(taken(link.receive(bare(1), Millis(3))).is_empty());
    assert_eq!(bodies(&link.outgoing(Millis(3))), [(3, "c")]);
    link.send("d").unwrap();
}

#[test]
fn only_the_oldest_frame_is_sent_again_and_the_next_once_it_is_missing_too() {
    let mut link = granter();
    for body in ["a", "b"] {
        link.send(body).unwrap();
    }
    assert_eq!(bodies(&link.outgoing(Millis(0))), [(1, "a"), (2, "b")]);
    assert_eq!(link.next_wake(Millis(0)), Some(Millis(3_000)));
    assert_eq!(link.outgoing(Millis(2_999)), []);
    assert_eq!(bodies(&link.outgoing(Millis(3_000))), [(1, "a")]);
    assert!(taken(link.receive(bare(1), Millis(3_050))).is_empty());
    assert_eq!(bodies(&link.outgoing(Millis(3_050))), [(2, "b")]);
}

#[test]
fn early_frames_are_kept_within_the_window_and_copies_are_acknowledged_again() {
    let mut link = granter();
    assert!(taken(link.receive(numbered(2, "b"), Millis(1))).is_empty());
    assert_eq!(link.early(), 1);
    assert_eq!(link.receive(numbered(3, "c"), Millis(1)).rejected, Some(Rejected::BeyondWindow));
    assert_eq!(link.outgoing(Millis(1)), [bare(0)]);
    assert_eq!(taken(link.receive(numbered(1, "a"), Millis(2))), ["a", "b"]);
    assert_eq!(link.outgoing(Millis(2)), [bare(2)]);
    assert!(taken(link.receive(numbered(1, "a"), Millis(3))).is_empty());
    assert_eq!(link.outgoing(Millis(3)), [bare(2)]);
    assert_eq!(link.outgoing(Millis(3)), [], "owed once");
    assert_eq!(link.last_received(), 2);
}

#[test]
fn a_new_connection_resends_what_the_peer_has_not_seen() {
    let mut link = granter();
    for body in ["a", "b", "c"] {
        link.send(body).unwrap();
    }
    assert_eq!(link.outgoing(Millis(0)).len(), 2);
    link.detach(Millis(10));
    assert_eq!(link.outgoing(Millis(20)), []);
    assert!(link.attach(greeting(1, Some(7), 1), Millis(30)).unwrap().is_empty());
    assert_eq!(bodies(&link.outgoing(Millis(30))), [(2, "b"), (3, "c")]);
}

#[test]
fn a_count_of_another_process_s_frames_is_not_taken_for_ours() {
    let mut link = granter();
    for body in ["a", "b"] {
        link.send(body).unwrap();
    }
    assert_eq!(link.outgoing(Millis(0)).len(), 2);
    // The node counts frames of start 6; it never heard the greeting of start 7.
    assert!(link.attach(greeting(1, Some(6), 2), Millis(30)).unwrap().is_empty());
    assert_eq!(bodies(&link.outgoing(Millis(30))), [(1, "a"), (2, "b")]);
}

#[test]
fn a_restarted_peer_gets_nothing_that_was_meant_for_its_predecessor() {
    let mut link = granter();
    for body in ["a", "b", "c"] {
        link.send(body).unwrap();
    }
    assert_eq!(link.outgoing(Millis(0)).len(), 2);
    assert_eq!(taken(link.receive(numbered(1, "x"), Millis(1))), ["x"]);
    assert_eq!(link.attach(greeting(2, None, 0), Millis(30)).unwrap(), ["a", "b", "c"]);
    assert_eq!(link.greeting(), greeting(7, Some(2), 0));
    link.send("d").unwrap();
    assert_eq!(bodies(&link.outgoing(Millis(30))), [(1, "d")]);
    assert_eq!(taken(link.receive(numbered(1, "y"), Millis(31))), ["y"]);
}

#[test]
fn what_waits_for_a_first_connection_is_sent_on_it() {
    let mut link: Link<&str> = Link::new(config(Side::Holder), Incarnation(1), Millis(0));
    link.send("a").unwrap();
    assert!(link.attach(greeting(7, Some(1), 0), Millis(5)).unwrap().is_empty());
    let frames = link.outgoing(Millis(5));
    assert_eq!(frames, [heartbeat(1), numbered(1, "a")], "the heartbeat never stands behind bodies");
}

#[test]
fn a_greeting_that_cannot_be_true_changes_nothing() {
    let mut link = granter();
    link.send("a").unwrap();
    let before = (link.state(), link.greeting(), link.queued());
    let superseded = AttachError::Superseded { from: Incarnation(0), known: Incarnation(1) };
    assert_eq!(link.attach(greeting(0, None, 0), Millis(5)), Err(superseded));
    let never = AttachError::NeverSent { last: 1, sent: 0 };
    assert_eq!(link.attach(greeting(1, Some(7), 1), Millis(5)), Err(never));
    assert_eq!(link.attach(greeting(2, Some(7), 1), Millis(5)), Err(never));
    assert_eq!((link.state(), link.greeting(), link.queued()), before);
}

#[test]
fn frames_that_no_link_sends_are_rejected_and_change_nothing() {
    let mut link = granter();
    link.send("a").unwrap();
    assert_eq!(link.outgoing(Millis(0)).len(), 1);
    for (frame, why) in [
        (Frame { seq: 1, ..bare(1) }, Rejected::Malformed),
        (Frame { body: Some("x"), ..bare(1) }, Rejected::Malformed),
        (Frame { ack: 1, ..answer(1) }, Rejected::Malformed),
        (Frame { ack: 2, ..numbered(1, "x") }, Rejected::NeverSent),
    ] {
        assert_eq!(link.receive(frame, Millis(1)), Received { bodies: vec![], rejected: Some(why) });
        assert_eq!((link.in_flight(), link.last_received()), (1, 0));
    }
}
