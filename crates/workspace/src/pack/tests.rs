//! Packs between real repositories: whole, by difference, damaged, incomplete, too large.
//! After a refusal the receiver must be as it was.

use std::{fs, path::Path};

use git2::ObjectType;

use super::*;
use crate::testing::{Bench, git};

const LIMIT: u64 = 1 << 30;

/// A repository with three commits, the second of which has a submodule entry.
fn source() -> (Bench, [CommitId; 3]) {
    let bench = Bench::new();
    let module: &[u8] = &[b'1'; 40];
    let first = bench.commit(&[], &[("a", b"one\n"), ("d/b", b"two\n")]);
    let second = bench.commit(&[&first], &[("a", b"one\n"), ("d/c", b"three\n"), ("m:160000", module)]);
    let third = bench.commit(&[&second], &[("a", b"four\n")]);
    (bench, [first, second, third])
}

fn pack(from: &Bench, want: &[&CommitId], have: &[&CommitId]) -> Vec<u8> {
    let owned = |ids: &[&CommitId]| ids.iter().map(|&id| id.clone()).collect::<Vec<_>>();
    let mut bytes = Vec::new();
    let count = from.repository.write_pack(&owned(want), &owned(have), &mut bytes, LIMIT).unwrap();
    assert_eq!(count, bytes.len() as u64);
    bytes
}

fn receive(to: &Bench, bytes: &[u8], tip: &CommitId) -> Result<(), Error> {
    to.repository.receive_pack(&mut &*bytes, std::slice::from_ref(tip), LIMIT)
}

/// Nothing but the repository's own folders is in the object store.
fn assert_untouched(bench: &Bench) {
    let objects = bench.repository.path().join("objects");
    let names = |path: &Path| {
        let mut names: Vec<_> = fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&objects), ["info", "pack"]);
    assert_eq!(names(&objects.join("pack")), [] as [&str; 0]);
}

#[test]
fn a_history_travels_whole_and_then_by_its_difference() {
    let (from, [first, second, third]) = source();
    let to = Bench::new();
    receive(&to, &pack(&from, &[&first], &[]), &first).unwrap();
    assert!(to.repository.has(&first).unwrap() && !to.repository.has(&third).unwrap());
    let all = [third.clone(), second.clone(), first.clone()];
    assert_eq!(to.repository.known(&all).unwrap(), std::slice::from_ref(&first));
    let rest = pack(&from, &[&third], &[&first]);
    receive(&to, &rest, &third).unwrap();
    assert_eq!(to.files(&third), from.files(&third));
    assert_eq!(to.repository.known(&all).unwrap(), all);
    to.repository.update_ref("refs/heads/x", &third, &crate::Expect::Absent).unwrap();
    git(to.repository.path(), &["fsck", "--strict", "--full"]);
    assert!(to.repository.reachable(&first, "refs/heads/").unwrap());
    assert!(!to.repository.reachable(&first, "refs/ensemble/").unwrap());
}

#[test]
fn receiving_twice_changes_nothing() {
    let (from, [.., third]) = source();
    let to = Bench::new();
    let bytes = pack(&from, &[&third], &[]);
    receive(&to, &bytes, &third).unwrap();
    let before = git(to.repository.path(), &["count-objects", "-v"]);
    assert!(before.contains("count: 12\n") && before.contains("packs: 0\n"), "{before}");
    receive(&to, &bytes, &third).unwrap();
    // Nothing to send is a pack too.
    let empty = pack(&from, &[&third], &[&third]);
    receive(&to, &empty, &third).unwrap();
    assert_eq!(git(to.repository.path(), &["count-objects", "-v"]), before);
}

#[test]
fn many_objects_stay_a_pack() {
    let from = Bench::new();
    let names: Vec<_> = (0..=objects::LOOSE_LIMIT).map(|number| format!("d/{number}")).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), name.as_bytes())).collect();
    let tip = from.commit(&[], &files);
    let (to, bytes) = (Bench::new(), pack(&from, &[&tip], &[]));
    for _ in 0..2 {
        receive(&to, &bytes, &tip).unwrap();
        let count = git(to.repository.path(), &["count-objects", "-v"]);
        assert!(count.contains("count: 0\n") && count.contains("packs: 1\n"), "{count}");
    }
    assert_eq!(to.files(&tip), from.files(&tip));
    to.repository.update_ref("refs/heads/x", &tip, &crate::Expect::Absent).unwrap();
    git(to.repository.path(), &["fsck", "--strict", "--full"]);
}

#[test]
fn a_pack_that_is_cut_off_or_damaged_is_refused_at_every_byte() {
    let (from, [.., third]) = source();
    let bytes = pack(&from, &[&third], &[]);
    let to = Bench::new();
    for length in 0..bytes.len() {
        let refused = receive(&to, &bytes[..length], &third);
        assert!(matches!(refused, Err(Error::BadPack { .. })), "{length}: {refused:?}");
        let mut damaged = bytes.clone();
        damaged[length] ^= 0x55;
        let refused = receive(&to, &damaged, &third);
        assert!(matches!(refused, Err(Error::BadPack { .. })), "{length}: {refused:?}");
    }
    let longer = [bytes.as_slice(), b"x"].concat();
    assert!(matches!(receive(&to, &longer, &third), Err(Error::BadPack { .. })));
    assert_untouched(&to);
}

#[test]
fn a_pack_that_lacks_something_is_refused_and_leaves_nothing() {
    let (from, [first, second, third]) = source();
    let to = Bench::new();
    let refused = receive(&to, &pack(&from, &[&third], &[&first]), &third);
    assert!(matches!(refused, Err(Error::Incomplete { .. })), "{refused:?}");
    // Complete, but not what was promised.
    let refused = receive(&to, &pack(&from, &[&second], &[]), &third);
    assert!(matches!(refused, Err(Error::Incomplete { .. })), "{refused:?}");
    // A blob is missing.
    let repo = from.git();
    let mut builder = repo.packbuilder().unwrap();
    let tip = commit(&repo, &first).unwrap();
    builder.insert_commit(tip.id()).unwrap();
    let mut without = repo.packbuilder().unwrap();
    without.insert_object(tip.id(), None).unwrap();
    without.insert_object(tip.tree_id(), None).unwrap();
    let mut bytes = git2::Buf::new();
    without.write_buf(&mut bytes).unwrap();
    let refused = receive(&to, &bytes, &first);
    assert!(matches!(refused, Err(Error::Incomplete { .. })), "{refused:?}");
    // A tip that is no commit.
    let tree = crate::tree::commit_id(tip.tree_id()).unwrap();
    let refused = receive(&to, &pack(&from, &[&first], &[]), &tree);
    assert!(matches!(refused, Err(Error::Incomplete { .. })), "{refused:?}");
    assert_untouched(&to);
}

#[test]
fn a_tree_with_a_name_that_leads_out_is_refused_on_arrival() {
    let from = Bench::new();
    let repo = from.git();
    let blob = repo.blob(b"x").unwrap();
    let tree = [&b"100644 .git\0"[..], blob.as_bytes()].concat();
    let tree = repo.odb().unwrap().write(ObjectType::Tree, &tree).unwrap();
    let text = format!("tree {tree}\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\n\nm\n");
    let id = repo.odb().unwrap().write(ObjectType::Commit, text.as_bytes()).unwrap();
    let id = crate::tree::commit_id(id).unwrap();
    let to = Bench::new();
    let refused = receive(&to, &pack(&from, &[&id], &[]), &id);
    assert!(matches!(refused, Err(Error::Escapes { .. })), "{refused:?}");
    assert_untouched(&to);
}

#[test]
fn limits_hold_both_ways() {
    let (from, [.., third]) = source();
    let bytes = pack(&from, &[&third], &[]);
    let limit = bytes.len() as u64 - 1;
    let refused = from.repository.write_pack(std::slice::from_ref(&third), &[], &mut Vec::new(), limit);
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    let to = Bench::new();
    let refused = to.repository.receive_pack(&mut bytes.as_slice(), &[third], limit);
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    assert_untouched(&to);
}

#[test]
fn a_receiver_that_hangs_up_is_an_error_not_a_crash() {
    struct Broken;
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (from, [first, ..]) = source();
    let broken = from.repository.write_pack(&[first], &[], &mut Broken, LIMIT);
    assert!(matches!(broken, Err(Error::Io { .. })), "{broken:?}");
    let unknown = CommitId::new("0123456789012345678901234567890123456789").unwrap();
    let refused = from.repository.write_pack(&[unknown], &[], &mut Vec::new(), LIMIT);
    assert!(matches!(refused, Err(Error::NoSuchCommit { .. })), "{refused:?}");
}
