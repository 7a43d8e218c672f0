//! The state that the sampling thread and the Python session share: the samples of one process.
//!
//! One mutex guards all of it. The sampling thread locks it for the length of a tick, before it stops the target. A
//! tick is counted at once, so `take` leaves no gap.

use crate::asyncio::task_counts::TaskReading;
use crate::linux::os::{monotonic_ns, unix_ns};
use crate::linux::target::Target;
use crate::ptrace::ptrace_stop::StopStats;
use crate::sampler::batch::{Batch, ClockReading, OpenBatch};
use crate::sampler::counts::Sample;
use crate::sampler::sample_ring::{SampleRing, Timeline};
use crate::stacks::stack_interner::StackInterner;
use crate::stacks::stack_reader::Failure;
use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The samples of one process.
#[derive(Debug)]
pub struct SharedSession {
    state: Mutex<SessionState>,
    changed: Condvar,
    /// Why it ended. Not in the state: whoever asks must not wait for a tick.
    ended: OnceLock<String>,
}

#[derive(Debug)]
pub struct SessionState {
    target: Arc<Target>,
    pub interner: StackInterner,
    open: OpenBatch,
    ring: SampleRing,
    /// The clocks after the last tick, for when the target is no longer there to ask.
    last: ClockReading,
    /// The target has been detached. Clocks are frozen from then on.
    detached: bool,
    recent_stacks: RecentStacks,
    max_stacks: usize,
}

/// Stacks counted in the last windows.
#[derive(Debug, Default)]
struct RecentStacks {
    recent: HashSet<crate::stacks::stack_interner::StackId>,
    previous: HashSet<crate::stacks::stack_interner::StackId>,
    rotated_ns: u64,
}

/// Stacks that were not counted for at least this long are dropped, once they are as many as the others.
const RETENTION_NS: u64 = 120_000_000_000;
/// Maximum age of the saved CPU time of the target, which is used once it has ended.
const CPU_CLOCK_MAX_AGE_NS: u64 = 50_000_000;
/// There is no point in tidying up less.
const MIN_STACKS_TO_DROP: usize = 1000;

impl SharedSession {
    /// Begins to count now. `sampler_cpu_ns` is what attaching took.
    pub fn new(
        target: Arc<Target>,
        interner: StackInterner,
        max_stacks: usize,
        timed: usize,
        cpu: ClockReading,
    ) -> SharedSession {
        let last = ClockReading { unix_ns: unix_ns(), monotonic_ns: monotonic_ns(), ..cpu };
        let open = OpenBatch::new(ClockReading { sampler_cpu_ns: 0, ..last }, max_stacks);
        let (ring, recent_stacks) = (SampleRing::new(timed), RecentStacks::default());
        let state =
            SessionState { target, interner, open, ring, last, detached: false, recent_stacks, max_stacks };
        SharedSession { state: Mutex::new(state), changed: Condvar::new(), ended: OnceLock::new() }
    }

    pub fn lock(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was counted since the last take.
    pub fn take(&self) -> Batch {
        self.lock().take()
    }

    /// The timed samples of the last `ns`, without the first `after` that were ever taken.
    pub fn timeline(&self, ns: u64, after: u64) -> Timeline {
        let (unix_ns, monotonic_ns) = (unix_ns(), monotonic_ns());
        let state = self.lock();
        let since_ns = monotonic_ns.saturating_sub(ns);
        state.ring.since(since_ns, after, unix_ns.saturating_sub(monotonic_ns), &state.interner)
    }

    pub fn ended(&self) -> Option<String> {
        self.ended.get().cloned()
    }

    /// The target has been detached; `ended` is the reason if no caller requested it.
    pub fn finish(&self, ended: Option<String>) {
        let mut state = self.lock();
        if !state.detached {
            state.last = state.now();
            ended.into_iter().for_each(|ended| _ = self.ended.set(ended));
            state.detached = true;
        }
        self.changed.notify_all();
    }

    /// Waits until the target has been detached, at most `timeout`.
    pub fn wait_until_detached(&self, timeout: Duration) {
        let waited = self.changed.wait_timeout_while(self.lock(), timeout, |state| !state.detached);
        if waited.unwrap_or_else(PoisonError::into_inner).1.timed_out() {
            let _ = self.ended.set("failed: the sampling thread does not answer".into());
        }
    }
}

impl SessionState {
    pub fn count(&mut self, outcome: Result<&[Sample], &Failure>, stops: StopStats, late_ns: u64) {
        match outcome {
            Ok(samples) => {
                self.open.add_samples(samples);
                self.ring.add(monotonic_ns(), samples);
            }
            Err(failure) => self.open.add_failure(failure.kind),
        }
        self.open.add_stops(stops);
        self.open.add_late(late_ns);
    }

    /// Counts a reading of tasks; None if there was nothing to read.
    pub fn count_tasks(&mut self, outcome: Result<Option<&TaskReading>, &Failure>) {
        match outcome {
            Ok(None) => {}
            Ok(Some(reading)) => self.open.tasks.add(reading),
            Err(_) => self.open.tasks.add_failure(),
        }
    }

    /// Ticks tried since the last take.
    pub fn attempts(&self) -> u64 {
        self.open.attempts()
    }

    /// Moves the sampler's clock on, and now and then the target's: it may be gone when it is asked again.
    pub fn add_cpu(&mut self, sampler_cpu_ns: u64) {
        self.last.sampler_cpu_ns += sampler_cpu_ns;
        let now_ns = monotonic_ns();
        if now_ns - self.last.monotonic_ns >= CPU_CLOCK_MAX_AGE_NS {
            self.last.monotonic_ns = now_ns;
            self.last.target_cpu_ns = self.target_cpu_ns();
        }
    }

    fn target_cpu_ns(&self) -> u64 {
        self.target.cpu_ns().unwrap_or(self.last.target_cpu_ns)
    }

    fn now(&self) -> ClockReading {
        let target_cpu_ns = self.target_cpu_ns();
        ClockReading { unix_ns: unix_ns(), monotonic_ns: monotonic_ns(), target_cpu_ns, ..self.last }
    }

    fn take(&mut self) -> Batch {
        let now = if self.detached { self.last } else { self.now() };
        self.recent_stacks.recent.extend(self.open.counts().rows().map(|(_, stack, _)| stack));
        let batch = self.open.close(now, &self.interner);
        self.drop_old_stacks(now.monotonic_ns);
        batch
    }

    /// Drops stacks that the last batches did not have: days of sampling see ever new stacks.
    fn drop_old_stacks(&mut self, now_ns: u64) {
        let full = self.recent_stacks.recent.len() >= self.max_stacks || self.interner.is_full();
        if !full && now_ns - self.recent_stacks.rotated_ns < RETENTION_NS {
            return;
        }
        self.recent_stacks.rotated_ns = now_ns;
        let recent = std::mem::take(&mut self.recent_stacks.recent);
        let mut keep = std::mem::replace(&mut self.recent_stacks.previous, recent);
        if full {
            // There has to be room for as many again.
            keep.clear();
        }
        keep.extend(&self.recent_stacks.previous);
        if full || self.interner.stack_count() > 2 * keep.len() + MIN_STACKS_TO_DROP {
            keep.extend(self.ring.stacks());
            self.interner.retain(|stack| keep.contains(&stack));
        }
    }
}
