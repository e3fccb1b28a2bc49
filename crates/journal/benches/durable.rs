//! What a durable fact costs, against a bare file on the same disk in the same run: one writer that
//! waits for each fact, and 64 at once whose facts are stored together. The bare file does the same
//! steps (write, `fdatasync`, answer) and nothing else: no order, no fence, no look-up.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark that goes wrong stops")]
#![allow(missing_docs, reason = "criterion makes its entry point")]

use std::{
    fs::File,
    io::Write,
    sync::mpsc::{self, Sender},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ensemble_core::ids::{Epoch, RunId, Seq};
use ensemble_journal::{Journal, NewFact, Stream};
use tokio::{runtime::Runtime, sync::oneshot};

/// Writers at once in the second part.
const WRITERS: u64 = 64;

/// Facts that each of them stores in one go, each after the one before is durable.
const EACH: u64 = 8;

/// A body as a report's or a dispatch's is, in bytes.
const BODY: usize = 400;

fn fact() -> NewFact {
    NewFact { kind: "reported".to_owned(), version: 1, body: "x".repeat(BODY), time_ms: 1 }
}

/// A folder on the disk of the build directory: a temporary one may lie in memory.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A stream with the place that its writer has reached.
struct Pen {
    stream: Stream,
    epoch: Epoch,
    last: Seq,
}

impl Pen {
    async fn new(journal: &Journal, number: u64) -> Self {
        let stream = Stream::Run(RunId::from_parts(1, number.into()));
        let epoch = journal.claim(&stream, Epoch(0)).await.unwrap();
        Self { stream, epoch, last: Seq(0) }
    }

    async fn write(&mut self, journal: &Journal) {
        self.last = journal.append(&self.stream, self.epoch, self.last, vec![fact()]).await.unwrap();
    }
}

/// The bare file: a thread that takes what has gathered, writes it, makes it durable and answers.
struct Bare {
    queue: Sender<(Vec<u8>, oneshot::Sender<()>)>,
    thread: JoinHandle<()>,
}

impl Bare {
    fn start(mut file: File) -> Self {
        let (queue, messages) = mpsc::channel::<(Vec<u8>, oneshot::Sender<()>)>();
        let thread = thread::spawn(move || {
            while let Ok(first) = messages.recv() {
                let (bodies, callers): (Vec<_>, Vec<_>) =
                    [first].into_iter().chain(messages.try_iter()).unzip();
                file.write_all(&bodies.concat()).unwrap();
                file.sync_data().unwrap();
                for caller in callers {
                    caller.send(()).unwrap();
                }
            }
        });
        Self { queue, thread }
    }
}

fn one_by_one(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("durable_one");
    group.sample_size(20).measurement_time(Duration::from_secs(5)).throughput(Throughput::Elements(1));
    let (dir, runtime) = (folder(), runtime());
    let mut file = File::create(dir.path().join("bare")).unwrap();
    group.bench_function("bare_file", |bencher| {
        bencher.iter(|| {
            file.write_all(fact().body.as_bytes()).unwrap();
            file.sync_data().unwrap();
        });
    });
    let journal = Journal::open(&dir.path().join("journal")).unwrap();
    let mut pen = runtime.block_on(Pen::new(&journal, 1));
    group.bench_function("journal", |bencher| {
        bencher.iter(|| runtime.block_on(pen.write(&journal)));
    });
    runtime.block_on(journal.close());
    group.finish();
}

fn many_at_once(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("durable_64");
    group.sample_size(10).measurement_time(Duration::from_secs(8));
    group.throughput(Throughput::Elements(WRITERS * EACH));
    let (dir, runtime) = (folder(), runtime());
    let bare = Bare::start(File::create(dir.path().join("bare")).unwrap());
    group.bench_function("bare_file", |bencher| {
        bencher.iter(|| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|_| {
                    let queue = bare.queue.clone();
                    runtime.spawn(async move {
                        for _ in 0..EACH {
                            let (caller, answer) = oneshot::channel();
                            queue.send((fact().body.into_bytes(), caller)).unwrap();
                            answer.await.unwrap();
                        }
                    })
                })
                .collect();
            runtime.block_on(async {
                for writer in writers {
                    writer.await.unwrap();
                }
            });
        });
    });
    drop(bare.queue);
    bare.thread.join().unwrap();
    let journal = Journal::open(&dir.path().join("journal")).unwrap();
    let mut round = 0;
    group.bench_function("journal", |bencher| {
        bencher.iter_custom(|rounds| (0..rounds).map(|_| many(&runtime, &journal, &mut round)).sum());
    });
    runtime.block_on(journal.close());
    group.finish();
}

/// One round of all writers, each with a stream of its own that was claimed before the clock starts.
fn many(runtime: &Runtime, journal: &Journal, round: &mut u64) -> Duration {
    *round += 1;
    runtime.block_on(async {
        let mut pens = Vec::new();
        for writer in 0..WRITERS {
            let (journal, number) = (journal.clone(), *round * WRITERS + writer);
            pens.push(tokio::spawn(async move { Pen::new(&journal, number).await }));
        }
        let mut ready = Vec::new();
        for pen in pens {
            ready.push(pen.await.unwrap());
        }
        let began = Instant::now();
        let mut writers = Vec::new();
        for mut pen in ready {
            let journal = journal.clone();
            writers.push(tokio::spawn(async move {
                for _ in 0..EACH {
                    pen.write(&journal).await;
                }
            }));
        }
        for writer in writers {
            writer.await.unwrap();
        }
        began.elapsed()
    })
}

criterion_group!(benches, one_by_one, many_at_once);
criterion_main!(benches);
