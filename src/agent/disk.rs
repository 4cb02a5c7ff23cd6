//! The bridge from async code to the disk: one thread per process runs all store operations.
//!
//! A blocking lock call on the runtime's pool cannot be cancelled and hangs the shutdown, so a job
//! that finds its lock held says so and is queued again behind the others; the thread never sleeps
//! on a lock. Jobs of one caller run in order as long as the caller awaits each.

use crate::store::error::StoreError;
use crate::wire::limits::LOCK_DEADLINE;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How long the thread waits for other work before it tries held locks again.
const RETRY_PAUSE: Duration = Duration::from_millis(2);

/// Runs once more later when it returns false.
type Job = Box<dyn FnMut() -> bool + Send>;

/// A handle on the store thread; cheap to clone. The thread ends with the last handle.
#[derive(Clone, Debug)]
pub struct Disk {
    jobs: mpsc::Sender<Job>,
}

impl Disk {
    /// Starts the thread.
    pub fn start() -> std::io::Result<Self> {
        let (jobs, inbox) = mpsc::channel();
        std::thread::Builder::new().name("store".to_owned()).spawn(move || work(&inbox))?;
        Ok(Self { jobs })
    }

    /// Runs an operation that takes no lock, or takes it in the blocking way of `store`.
    pub async fn run<T: Send + 'static>(
        &self,
        what: &Path,
        job: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let mut job = Some(job);
        self.attempt(what, move || match job.take() {
            Some(job) => job().map(Some),
            None => Ok(None),
        })
        .await
    }

    /// Runs an operation until it returns something, or [`LOCK_DEADLINE`] is over. `None` means that
    /// its lock (of the file `what`) is held.
    pub async fn attempt<T: Send + 'static>(
        &self,
        what: &Path,
        job: impl FnMut() -> Result<Option<T>, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (done, result) = oneshot::channel();
        if !self.send(what, job, done) {
            return Err(gone(what, "the store thread has ended"));
        }
        result.await.unwrap_or_else(|_| Err(gone(what, "the store thread has ended")))
    }

    /// The same as [`Self::run`] for a thread that may block; never one of the runtime's.
    pub fn wait<T: Send + 'static>(
        &self,
        what: &Path,
        job: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (done, result) = oneshot::channel();
        let mut job = Some(job);
        self.send(what, move || job.take().map(|job| job()).transpose(), done);
        result.blocking_recv().unwrap_or_else(|_| Err(gone(what, "the store thread has ended")))
    }

    /// The same for whoever cannot wait: a failure is logged. `what` also says what was tried.
    pub fn later<T: Send + 'static>(
        &self,
        what: &Path,
        job: impl FnMut() -> Result<Option<T>, StoreError> + Send + 'static,
    ) {
        let (done, _) = oneshot::channel();
        // At the end of the process the thread may be gone; what is given back later is given back then.
        self.send(what, job, done);
    }

    /// Queues an operation; `false` when nobody will run it.
    fn send<T: Send + 'static>(
        &self,
        what: &Path,
        mut job: impl FnMut() -> Result<Option<T>, StoreError> + Send + 'static,
        done: oneshot::Sender<Result<T, StoreError>>,
    ) -> bool {
        let mut done = Some(done);
        let started = Instant::now();
        let path: PathBuf = what.to_owned();
        let job: Job = Box::new(move || {
            let outcome = match catch_unwind(AssertUnwindSafe(&mut job)) {
                Ok(Ok(None)) if started.elapsed() < LOCK_DEADLINE => return false,
                Ok(Ok(None)) => Err(StoreError::LockTimeout { path: path.clone(), waited: LOCK_DEADLINE }),
                Ok(Ok(Some(value))) => Ok(value),
                Ok(Err(error)) => Err(error),
                Err(_) => Err(gone(&path, "the operation panicked")),
            };
            if let Some(done) = done.take()
                && let Err(Err(error)) = done.send(outcome)
            {
                // The caller is gone, and nobody else would know.
                tracing::warn!(%error, "a store operation failed");
            }
            true
        });
        self.jobs.send(job).is_ok()
    }
}

fn gone(path: &Path, why: &'static str) -> StoreError {
    StoreError::Io {
        path: path.to_owned(),
        doing: "run a store operation",
        source: std::io::Error::other(why),
    }
}

fn work(inbox: &mpsc::Receiver<Job>) {
    let mut held: VecDeque<Job> = VecDeque::new();
    let mut tried = Instant::now();
    loop {
        let next = if held.is_empty() {
            match inbox.recv() {
                Ok(job) => Some(job),
                Err(mpsc::RecvError) => return,
            }
        } else {
            inbox.recv_timeout(RETRY_PAUSE).ok()
        };
        if let Some(mut job) = next
            && !job()
        {
            held.push_back(job);
        }
        if !held.is_empty() && tried.elapsed() >= RETRY_PAUSE {
            held.retain_mut(|job| !job());
            tried = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn a_job_that_finds_its_lock_held_does_not_keep_others_waiting() {
        let disk = Disk::start().expect("starts");
        let tries = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&tries);
        let other = disk.clone();
        let path = Path::new("a");
        let held = disk.attempt(path, move || {
            Ok((counted.fetch_add(1, Ordering::SeqCst) >= 3).then_some("locked at last"))
        });
        let free = other.run(path, || Ok("free"));
        let (held, free) = tokio::join!(held, free);
        assert_eq!((held.expect("held"), free.expect("free")), ("locked at last", "free"));
        assert_eq!(tries.load(Ordering::SeqCst), 4);
    }

    #[tokio::test]
    async fn a_panic_in_a_job_is_an_error_and_the_thread_goes_on() {
        let disk = Disk::start().expect("starts");
        let broken = disk.run::<()>(Path::new("x"), || panic!("on purpose")).await;
        assert!(broken.expect_err("fails").to_string().contains("x"));
        assert_eq!(disk.run(Path::new("x"), || Ok(7)).await.expect("works"), 7);
    }
}
