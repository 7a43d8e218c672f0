//! What the sampling thread and the holder of a session share: one process's samples so far.
//!
//! It all lies behind one mutex. The sampling thread holds it for the length of a tick, and takes it before the
//! target is made to stand still. A tick is counted at once, so taking what was counted leaves no gap.

use crate::linux::os::{monotonic_ns, unix_ns};
use crate::linux::target::Target;
use crate::ptrace::ptrace_stop::Stops;
use crate::sampler::batch::{Batch, Open, Reading};
use crate::sampler::counts::Sample;
use crate::sampler::sample_ring::{Ring, Timeline};
use crate::stacks::stack_interner::Book;
use crate::stacks::stack_reader::Failure;
use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The samples of one process.
#[derive(Debug)]
pub struct Watch {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug)]
pub struct Inner {
    target: Arc<Target>,
    pub book: Book,
    open: Open,
    ring: Ring,
    /// The clocks after the last tick, for when the target is no longer there to ask.
    last: Reading,
    /// The target has been let go. Time stands still from then on.
    done: bool,
    ended: Option<String>,
    seen: Seen,
    max_stacks: usize,
}

/// Stacks counted in the last windows.
#[derive(Debug, Default)]
struct Seen {
    recent: HashSet<crate::stacks::stack_interner::StackId>,
    before: HashSet<crate::stacks::stack_interner::StackId>,
    turned_ns: u64,
}

/// Stacks that were not counted for at least this long are dropped, once they are as many as the others.
const FORGET_NS: u64 = 120_000_000_000;
/// How old the target's CPU time may be that is kept for when it can no longer be asked.
const CLOCK_NS: u64 = 50_000_000;
/// There is no point in tidying up less.
const FEW_STACKS: usize = 1000;

impl Watch {
    /// Begins to count now. `sampler_cpu_ns` is what attaching took.
    pub fn begin(target: Arc<Target>, book: Book, max_stacks: usize, timed: usize, cpu: Reading) -> Watch {
        let last = Reading { unix_ns: unix_ns(), monotonic_ns: monotonic_ns(), ..cpu };
        let open = Open::at(Reading { sampler_cpu_ns: 0, ..last }, max_stacks);
        let (ring, seen) = (Ring::new(timed), Seen::default());
        let inner = Inner { target, book, open, ring, last, done: false, ended: None, seen, max_stacks };
        Watch { inner: Mutex::new(inner), changed: Condvar::new() }
    }

    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was counted since the last take.
    pub fn take(&self) -> Batch {
        self.lock().take()
    }

    /// The timed samples of the last `ns`, without the first `after` that were ever taken.
    pub fn timeline(&self, ns: u64, after: u64) -> Timeline {
        let (unix_ns, monotonic_ns) = (unix_ns(), monotonic_ns());
        let inner = self.lock();
        let since_ns = monotonic_ns.saturating_sub(ns);
        inner.ring.since(since_ns, after, unix_ns.saturating_sub(monotonic_ns), &inner.book)
    }

    pub fn ended(&self) -> Option<String> {
        self.lock().ended.clone()
    }

    /// The target has been let go; `ended` says why if nobody asked for it.
    pub fn finish(&self, ended: Option<String>) {
        let mut inner = self.lock();
        if !inner.done {
            inner.last = inner.now();
            inner.ended = inner.ended.take().or(ended);
            inner.done = true;
        }
        self.changed.notify_all();
    }

    /// Waits until the target has been let go, with patience.
    pub fn wait_until_done(&self, patience: Duration) {
        let waited = self.changed.wait_timeout_while(self.lock(), patience, |inner| !inner.done);
        let (mut inner, result) = waited.unwrap_or_else(PoisonError::into_inner);
        if result.timed_out() && inner.ended.is_none() {
            inner.ended = Some("failed: the sampling thread does not answer".into());
        }
    }
}

impl Inner {
    pub fn count(&mut self, outcome: Result<&[Sample], &Failure>, stops: Stops, late_ns: u64) {
        match outcome {
            Ok(samples) => {
                self.open.sampled(samples);
                self.ring.add(monotonic_ns(), samples);
            }
            Err(failure) => self.open.failed(failure.kind),
        }
        self.open.stopped(stops);
        self.open.late(late_ns);
    }

    /// Ticks tried since the last take.
    pub fn attempts(&self) -> u64 {
        self.open.attempts()
    }

    /// Moves the sampler's clock on, and now and then the target's: it may be gone when it is asked again.
    pub fn used(&mut self, sampler_cpu_ns: u64) {
        self.last.sampler_cpu_ns += sampler_cpu_ns;
        let now_ns = monotonic_ns();
        if now_ns - self.last.monotonic_ns >= CLOCK_NS {
            self.last.monotonic_ns = now_ns;
            self.last.target_cpu_ns = self.target_cpu_ns();
        }
    }

    fn target_cpu_ns(&self) -> u64 {
        self.target.cpu_ns().unwrap_or(self.last.target_cpu_ns)
    }

    fn now(&self) -> Reading {
        let target_cpu_ns = self.target_cpu_ns();
        Reading { unix_ns: unix_ns(), monotonic_ns: monotonic_ns(), target_cpu_ns, ..self.last }
    }

    fn take(&mut self) -> Batch {
        let now = if self.done { self.last } else { self.now() };
        self.seen.recent.extend(self.open.counts().rows().map(|(_, stack, _)| stack));
        let batch = self.open.swap(now, &self.book);
        self.forget(now.monotonic_ns);
        batch
    }

    /// Days of sampling see ever new stacks: what the last windows did not have is dropped.
    fn forget(&mut self, now_ns: u64) {
        let full = self.seen.recent.len() >= self.max_stacks;
        if !full && now_ns - self.seen.turned_ns < FORGET_NS {
            return;
        }
        self.seen.turned_ns = now_ns;
        let recent = std::mem::take(&mut self.seen.recent);
        let mut kept = std::mem::replace(&mut self.seen.before, recent);
        if full {
            // There has to be room for as many again.
            kept.clear();
        }
        kept.extend(&self.seen.before);
        if full || self.book.stack_count() > 2 * kept.len() + FEW_STACKS {
            kept.extend(self.ring.stacks());
            self.book.retain(|stack| kept.contains(&stack));
        }
    }
}
