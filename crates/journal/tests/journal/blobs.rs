//! Blobs: named by content, checked on the way out, nothing left behind.

use std::{
    fs,
    time::{Duration, SystemTime},
};

use ensemble_core::ids::{BlobId, Epoch, RunId, Seq};
use ensemble_journal::{Error, Journal, NewFact, Stream, Swept};
use tempfile::tempdir;

#[tokio::test]
async fn a_blob_is_named_by_its_bytes_and_survives_a_new_start() {
    let dir = tempdir().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    let id = journal.put_blob(b"abc".to_vec()).await.unwrap();
    assert_eq!(id.as_str(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(journal.put_blob(b"abc".to_vec()).await.unwrap(), id);
    assert_eq!(journal.blob_path(&id), dir.path().join("blobs/ba").join(id.as_str()));
    journal.close().await;
    let journal = Journal::open(dir.path()).unwrap();
    assert_eq!(journal.get_blob(&id).await.unwrap().unwrap(), b"abc");
    let none = BlobId::new("0".repeat(64)).unwrap();
    assert!(journal.get_blob(&none).await.unwrap().is_none());
}

#[tokio::test]
async fn a_file_becomes_the_same_blob_as_its_bytes() {
    let dir = tempdir().unwrap();
    let journal = Journal::open(&dir.path().join("data")).unwrap();
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let file = dir.path().join("log");
    fs::write(&file, &bytes).unwrap();
    let id = journal.put_blob_file(&file).await.unwrap();
    assert_eq!(journal.put_blob(bytes.clone()).await.unwrap(), id);
    assert_eq!(fs::read(journal.blob_path(&id)).unwrap(), bytes);
    let names: Vec<_> =
        fs::read_dir(dir.path().join("data/blobs")).unwrap().map(|e| e.unwrap().file_name()).collect();
    let names: Vec<_> = names.into_iter().filter(|name| name != ".lock").collect();
    assert_eq!(names, [id.as_str()[..2].to_owned().as_str()], "no unfinished file is left");

    let missing = journal.put_blob_file(&dir.path().join("none")).await.unwrap_err();
    assert!(missing.to_string().contains("none"), "{missing}");
}

#[tokio::test]
async fn a_damaged_blob_is_an_error_with_its_path_until_it_is_stored_again() {
    let dir = tempdir().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    let id = journal.put_blob(b"abc".to_vec()).await.unwrap();
    let path = journal.blob_path(&id);
    fs::write(&path, b"abd").unwrap();
    let damaged = journal.get_blob(&id).await.unwrap_err();
    assert!(matches!(&damaged, Error::Damaged { path: named, .. } if *named == path), "{damaged}");
    journal.put_blob(b"abc".to_vec()).await.unwrap();
    assert_eq!(journal.get_blob(&id).await.unwrap().unwrap(), b"abc");
}

#[tokio::test]
async fn only_old_unfinished_files_are_swept() {
    let dir = tempdir().unwrap();
    drop(Journal::open(dir.path()).unwrap());
    let (old, new) = (dir.path().join("blobs/.new-old"), dir.path().join("blobs/.new-new"));
    fs::write(&old, "x").unwrap();
    fs::write(&new, "x").unwrap();
    let two_days_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(48 * 3600);
    fs::File::options().write(true).open(&old).unwrap().set_modified(two_days_ago).unwrap();
    drop(Journal::open(dir.path()).unwrap());
    assert!(!old.exists() && new.exists());
}

/// A run whose one fact names a blob.
async fn naming(journal: &Journal, number: u128, id: &BlobId) -> Stream {
    let stream = Stream::Run(RunId::from_parts(1, number));
    let body = format!("{{\"log\":\"{id}\"}}");
    let fact = NewFact { kind: "reported".to_owned(), version: 1, body, time_ms: 1 };
    journal.claim(&stream, Epoch(0)).await.unwrap();
    journal.append(&stream, Epoch(1), Seq(0), vec![fact]).await.unwrap();
    stream
}

#[tokio::test]
async fn a_sweep_removes_what_no_fact_names_and_nothing_young() {
    const HOUR: Duration = Duration::from_secs(3600);
    let dir = tempdir().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    let [kept, gone, young, shared] = {
        let mut ids = Vec::new();
        for bytes in ["kept", "gone", "young", "shared"] {
            ids.push(journal.put_blob(bytes.into()).await.unwrap());
        }
        <[BlobId; 4]>::try_from(ids).unwrap()
    };
    naming(&journal, 1, &kept).await;
    let run = naming(&journal, 2, &gone).await;
    naming(&journal, 3, &shared).await;
    let age = |id: &BlobId| {
        let file = fs::File::options().write(true).open(journal.blob_path(id)).unwrap();
        file.set_modified(SystemTime::now() - 2 * HOUR).unwrap();
    };
    [&kept, &gone, &shared].into_iter().for_each(age);

    assert_eq!(journal.sweep_blobs(&[], HOUR, false).await.unwrap(), Swept::default());
    let one = Swept { blobs: 1, bytes: 4 };
    assert_eq!(journal.sweep_blobs(std::slice::from_ref(&run), HOUR, true).await.unwrap(), one);
    assert!(journal.get_blob(&gone).await.unwrap().is_some(), "only counted");

    assert_eq!(journal.forget(&run, Epoch(1)).await.unwrap(), 1);
    assert_eq!(journal.sweep_blobs(&[], HOUR, false).await.unwrap(), one);
    assert!(journal.get_blob(&gone).await.unwrap().is_none());
    for id in [&kept, &young, &shared] {
        assert!(journal.get_blob(id).await.unwrap().is_some());
    }
    // One that is stored again is young again, whether or not a fact names it yet.
    age(&young);
    journal.put_blob(b"young".to_vec()).await.unwrap();
    assert_eq!(journal.sweep_blobs(&[], HOUR, false).await.unwrap(), Swept::default());
}
