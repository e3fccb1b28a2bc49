//! Placement as a table of small scenes, and what holds for any order of wants, offers and ends.

use proptest::prelude::*;

use super::*;
use crate::ids::Incarnation;

fn offer(node: &str, employees: &[(&str, u32)], checks: u32) -> Offer {
    Offer {
        place: Place { node: node.parse().unwrap(), incarnation: Incarnation(1) },
        employees: employees.iter().map(|(id, n)| (id.parse().unwrap(), *n)).collect(),
        checks,
    }
}

fn run(number: u64) -> RunId {
    RunId::from_parts(number, 0)
}

/// A task's first attempt.
fn key(of: u64, task: u32) -> SlotKey {
    SlotKey { run: run(of), what: SlotUse::Attempt(TaskIx(task), AttemptNumber(1)) }
}

fn slot(employee: &str) -> Slot {
    Slot::Employee(employee.parse().unwrap())
}

fn want(priority: Priority, employee: &str) -> Want {
    Want { priority, slots: BTreeSet::from([slot(employee)]) }
}

fn back() -> Want {
    want(Priority::P3, "back")
}

fn granted(board: &mut Board) -> Vec<(SlotKey, String)> {
    board.grant().into_iter().map(|grant| (grant.key, grant.place.node.to_string())).collect()
}

fn next(board: &mut Board) -> Vec<SlotKey> {
    board.grant().into_iter().map(|grant| grant.key).collect()
}

#[test]
fn first_come_first_served_least_loaded_first() {
    let mut board = Board::default();
    board.offer(offer("a", &[("back", 1)], 0));
    board.offer(offer("b", &[("back", 2)], 0));
    for task in 1..=5 {
        board.want(key(1, task), back());
    }
    let places = [(key(1, 1), "b".into()), (key(1, 2), "a".into()), (key(1, 3), "b".into())];
    assert_eq!(granted(&mut board), places);
    board.free(&key(1, 2));
    assert_eq!(granted(&mut board), [(key(1, 4), "a".into())]);
    board.withdraw(&key(1, 5));
    board.free(&key(1, 1));
    assert_eq!(granted(&mut board), []);
}

#[test]
fn a_want_that_nobody_serves_holds_up_nobody() {
    let mut board = Board::default();
    board.offer(offer("a", &[("back", 1)], 1));
    board.want(key(1, 1), want(Priority::P1, "front"));
    board.want(key(1, 2), back());
    board.want(key(1, 3), Want { priority: Priority::P3, slots: BTreeSet::from([Slot::Check]) });
    assert_eq!(next(&mut board), [key(1, 2), key(1, 3)]);
}

#[test]
fn what_was_adopted_takes_its_slot() {
    let mut board = Board::default();
    board.offer(offer("a", &[("back", 1)], 0));
    board.want(key(9, 1), back());
    board.occupy(key(9, 1), "a".parse().unwrap(), slot("back"));
    board.want(key(1, 1), back());
    assert_eq!(next(&mut board), []);
    board.forget(run(9));
    assert_eq!(next(&mut board), [key(1, 1)]);
}

#[test]
fn a_higher_priority_goes_first_whoever_wants_it_and_however_late() {
    let mut board = Board::default();
    board.offer(offer("a", &[("back", 1)], 0));
    for (task, priority) in [(1, Priority::P4), (2, Priority::P3), (3, Priority::P2), (4, Priority::P3)] {
        board.want(key(1, task), want(priority, "back"));
    }
    board.want(key(2, 1), want(Priority::P1, "back"));
    let order = [key(2, 1), key(1, 3), key(1, 2), key(1, 4), key(1, 1)];
    for expected in order {
        assert_eq!(next(&mut board), std::slice::from_ref(&expected));
        board.free(&expected);
    }
}

#[test]
fn runs_that_share_an_employee_get_its_slots_in_turn() {
    let mut board = Board::default();
    board.offer(offer("a", &[("back", 4)], 0));
    (1..=8).for_each(|task| board.want(key(1, task), back()));
    assert_eq!(next(&mut board), [key(1, 1), key(1, 2), key(1, 3), key(1, 4)]);
    (1..=8).for_each(|task| board.want(key(2, task), back()));
    board.free(&key(1, 1));
    board.free(&key(1, 2));
    assert_eq!(next(&mut board), [key(2, 1), key(2, 2)], "the later run catches up");
    board.free(&key(1, 3));
    assert_eq!(next(&mut board), [key(1, 5)], "the one that has one left goes before the one that has two");
}

#[test]
fn slots_that_others_do_not_want_count_for_nothing() {
    let mut board = Board::default();
    board.offer(offer("a", &[("back", 1), ("front", 3)], 0));
    for task in 1..=3 {
        board.want(key(1, task), want(Priority::P3, "front"));
    }
    assert_eq!(next(&mut board).len(), 3);
    board.want(key(1, 4), back());
    board.want(key(2, 1), back());
    assert_eq!(
        next(&mut board),
        [key(1, 4)],
        "a run that is alone with one employee is not put last at another"
    );
}

/// What may happen to a board.
#[derive(Clone, Debug)]
enum Step {
    Want(u64, u32, Priority),
    Free(usize),
    Slots(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let priority = prop_oneof![Just(Priority::P1), Just(Priority::P3), Just(Priority::P4)];
    prop_oneof![
        (1..4_u64, 0..40_u32, priority).prop_map(|(run, task, priority)| Step::Want(run, task, priority)),
        any::<usize>().prop_map(Step::Free),
        (0..5_u32).prop_map(Step::Slots),
    ]
}

proptest! {
    /// Never more live than offered at the time of the grant, nothing granted twice, no slot idle while
    /// somebody wants it, and nobody served before a more urgent want or a run that has less.
    #[test]
    fn grants_are_bounded_fair_and_leave_nothing_idle(steps in prop::collection::vec(step(), 1..120)) {
        let mut board = Board::default();
        let (mut slots, mut live) = (0_u32, Vec::<SlotKey>::new());
        let mut waiting = BTreeMap::<SlotKey, Priority>::new();
        for step in steps {
            match step {
                Step::Want(run, task, priority) => {
                    let key = key(run, task);
                    if !live.contains(&key) {
                        waiting.entry(key.clone()).or_insert(priority);
                    }
                    board.want(key, want(priority, "back"));
                }
                Step::Free(_) if live.is_empty() => {}
                Step::Free(which) => board.free(&live.swap_remove(which % live.len())),
                Step::Slots(count) => {
                    slots = count;
                    board.offer(offer("a", &[("back", count)], 0));
                }
            }
            for grant in board.grant() {
                let priority = waiting.remove(&grant.key);
                prop_assert!(priority.is_some(), "granted what nobody waits for");
                prop_assert!(waiting.values().all(|other| Some(*other) >= priority));
                let has = |run: RunId| live.iter().filter(|key| key.run == run).count();
                let rivals = waiting.iter().filter(|(_, other)| Some(**other) == priority);
                prop_assert!(rivals.map(|(key, _)| has(key.run)).all(|other| has(grant.key.run) <= other));
                live.push(grant.key);
                prop_assert!(live.len() <= slots as usize);
            }
            prop_assert!(waiting.is_empty() || live.len() >= slots as usize, "a slot is idle");
        }
    }
}
