//! Consistent stacks at the price of one stopped thread, or none.
//!
//! A Python stack changes only while its thread holds the GIL. So a reading is consistent if, from its beginning to
//! its end,
//! - the thread that holds the GIL cannot run: it is stopped, or has no CPU all the time; or
//! - no thread holds the GIL, and each thread that was read had no CPU all the time. A thread that was on a CPU
//!   works without the GIL and may have held it for a moment, so it is read twice and both readings must be equal.
//!
//! The run count of a thread (`os_thread`) shows whether it had a CPU in between. So a waiting thread is never
//! stopped; a stop would wake it. A reading that turns out inconsistent is repeated, with those threads stopped
//! that need to be: the holder, or the threads that work without the GIL. Interpreters are read one after another:
//! those with a GIL of their own (PEP 684) do not block each other.
//!
//! Where the holder cannot be identified, either no thread may have a CPU or all are stopped. That is so before
//! Python 3.13 with interpreters other than the main one: their thread states may name the thread that made them.

use crate::linux::os_thread::Recheck;
use crate::linux::threads::Threads;
use crate::ptrace::ptrace_stop::{StopError, Stopper};
use crate::stacks::stack_interner::StackInterner;
use crate::stacks::stack_reader::{Failure, GilState, StackReader, Stacks, ThreadStack};
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// A reading that was not true is made again after these pauses: a call that was found half entered needs
/// nanoseconds to be entered, but its thread may have to wait for a CPU first, perhaps the one that reads it.
const RETRY_PAUSES_US: [u64; 8] = [20, 20, 100, 200, 400, 800, 1600, 3200];
/// How often a thread without a CPU is read without a stop. If it gets a CPU each time, it is stopped.
const UNSTOPPED_TRIES: usize = 4;

/// The share of the longest stop for which a thread without a CPU is read, and until which the reading is verified. What
/// follows keeps it from its CPU as well.
const UNSTOPPED_READ_SHARE: f64 = 0.75;
const UNSTOPPED_SHARE: f64 = 0.9;

/// A reader of one process, and what it needs to read consistently.
pub struct ConsistentReader<'a> {
    pub reader: &'a mut dyn StackReader,
    pub threads: &'a mut Threads,
    pub interner: &'a mut StackInterner,
}

/// Which threads are stopped for a reading that needs a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopScope {
    /// The thread that holds the GIL, of one interpreter after another.
    GilHolder,
    /// All threads.
    AllThreads,
}

type ReadResult = Result<Vec<ThreadStack>, Failure>;

impl ConsistentReader<'_> {
    /// Reads all Python threads. `threads` must have been observed just now. Threads that have not run since they were
    /// last read are not read again.
    ///
    /// # Errors
    /// `moved` if something ran at every try; `unstoppable`, `slow`, `traced`, `leaving` and `lock` from stopping;
    /// the errors of the reader.
    pub fn read(&mut self, scope: StopScope, stopper: &mut Stopper) -> ReadResult {
        let interpreters = self.reader.interpreters()?;
        let mut stacks = Vec::new();
        let mut reobserved = false;
        if scope == StopScope::AllThreads {
            stacks = self.retry_while_transient(&mut reobserved, |reading, n| {
                reading.attempt_all_off_cpu(&interpreters, n, stopper)
            })?;
            self.mark_read(&stacks);
        } else {
            for &interpreter in &interpreters {
                let attempt = |reading: &mut Self, n| match reading.reader.has_native_ids(interpreter) {
                    true => reading.attempt(interpreter, n, stopper),
                    false => reading.attempt_all_off_cpu(&[interpreter], n, stopper),
                };
                let mut found = self.retry_while_transient(&mut reobserved, attempt)?;
                self.mark_read(&found);
                stacks.append(&mut found);
            }
        }
        if interpreters.len() > 1 {
            self.invalidate_ran(&stacks);
        }
        // A thread in no interpreter had nothing to read. True only if all was read after the same observation.
        if interpreters.len() == 1 || !reobserved {
            self.mark_others_read(&stacks);
        }
        Ok(stacks)
    }

    /// Repeats an attempt until it succeeds or there is no point.
    fn retry_while_transient(
        &mut self,
        reobserved: &mut bool,
        mut attempt: impl FnMut(&mut Self, usize) -> ReadResult,
    ) -> ReadResult {
        let mut n = 0;
        loop {
            match attempt(self, n) {
                Err(failure) if failure.retry && n < RETRY_PAUSES_US.len() => {}
                done => return done,
            }
            std::thread::sleep(Duration::from_micros(RETRY_PAUSES_US[n]));
            self.threads.stay.begin();
            n += 1;
            self.threads.observe().map_err(|error| Failure::of_files(&error))?;
            *reobserved = true;
            if self.threads.observes_slowly() {
                // A long observation is out of date at its end: stop what has to be. The reading begins anew.
                n = n.max(UNSTOPPED_TRIES);
                self.reader.interpreters()?;
            }
        }
    }

    fn attempt(&mut self, interpreter: usize, n: usize, stopper: &mut Stopper) -> ReadResult {
        if n < UNSTOPPED_TRIES && self.threads.were_all_off_cpu() {
            return self.read_unstopped(interpreter, stopper);
        }
        let gil = self.reader.gil(interpreter)?;
        if gil.holder == 0 {
            let working = self.threads.tids_on_cpu();
            return match n == 0 || working.is_empty() {
                true => self.read_unstopped(interpreter, stopper),
                false => self.read_stopped(interpreter, &working, stopper),
            };
        }
        match holder_tid(self.threads, gil) {
            None => self.attempt_all_off_cpu(&[interpreter], n, stopper),
            Some(tid) if self.threads.is_off_cpu(tid) && n < UNSTOPPED_TRIES => {
                self.read_unstopped(interpreter, stopper)
            }
            Some(tid) => self.read_stopped(interpreter, &[tid], stopper),
        }
    }

    /// Reads with no thread stopped.
    fn read_unstopped(&mut self, interpreter: usize, stopper: &Stopper) -> ReadResult {
        self.reader.set_deadline(self.unstopped_deadline(stopper, UNSTOPPED_READ_SHARE));
        let threads = RefCell::new(&mut *self.threads);
        let mut is_held = None;
        // What follows takes long where there are thousands of threads.
        let mut verify_held = |gil: GilState| {
            if gil.holder != 0 {
                let mut threads = threads.borrow_mut();
                is_held = Some(is_held_off_cpu(&mut threads, gil));
                if is_held == Some(true) {
                    threads.end_displacement();
                }
            }
        };
        let stacks = read_one(self.reader, &threads, self.interner, interpreter, &mut verify_held);
        let deadline = self.unstopped_deadline(stopper, UNSTOPPED_SHARE);
        self.reader.set_deadline(deadline);
        let verified = stacks.and_then(|stacks| match is_held {
            Some(true) => Ok(stacks.threads),
            Some(false) => Err(moved("the thread with the GIL ran while it was read")),
            None => self.verify(stacks, interpreter, None, deadline),
        });
        self.reader.set_deadline(None);
        verified
    }

    /// The deadline of a reading without a stop. A preempted thread may wait for the CPU of the reader: that must not
    /// take longer than a stop.
    fn unstopped_deadline(&self, stopper: &Stopper, share: f64) -> Option<Instant> {
        let looked = self.threads.preempted_thread().and(self.threads.observed_at);
        looked.map(|looked| looked + stopper.limits.max_stop.mul_f64(share))
    }

    /// Reads with these threads stopped, for as long as their memory is read.
    fn read_stopped(&mut self, interpreter: usize, tids: &[i32], stopper: &mut Stopper) -> ReadResult {
        let stop = stopper.stop_these(tids).map_err(|refusal| refused(&refusal))?;
        let stopped = StoppedThreads { tids: stop.threads().collect(), deadline: stop.deadline() };
        self.reader.set_deadline(Some(stopped.deadline));
        let mut stop = Some(stop);
        let threads = RefCell::new(&mut *self.threads);
        // Where the GIL is free it has to be seen to be free at the end.
        let mut release = |gil: GilState| {
            if gil.holder != 0 && holder_tid(&threads.borrow(), gil).is_some_and(|tid| stopped.holds(tid)) {
                stop = None;
            }
        };
        let read = read_one(self.reader, &threads, self.interner, interpreter, &mut release);
        let stacks = match read {
            Ok(stacks) => self.verify(stacks, interpreter, Some(&stopped), Some(stopped.deadline)),
            // Whatever was wrong, it moved.
            Err(failure) => match self.reader.gil(interpreter) {
                Ok(gil)
                    if gil.holder != 0
                        && !holder_tid(self.threads, gil).is_some_and(|tid| stopped.holds(tid)) =>
                {
                    Err(moved("another thread took the GIL"))
                }
                _ => Err(failure),
            },
        };
        drop(stop);
        self.reader.set_deadline(None);
        stopped.tids.iter().for_each(|&tid| self.threads.mark_stopped(tid));
        stacks
    }

    /// Checks that a reading is consistent; `stopped` are the threads that stood still for it, if any. It is given up
    /// at the deadline if the GIL is free; if not, little is checked.
    fn verify(
        &mut self,
        stacks: Stacks,
        interpreter: usize,
        stopped: Option<&StoppedThreads>,
        deadline: Option<Instant>,
    ) -> ReadResult {
        let Stacks { threads, gil } = stacks;
        if gil.holder == 0 {
            return self.verify_free_gil(threads, gil, interpreter, stopped, deadline);
        }
        let holder = holder_tid(self.threads, gil);
        match (holder, stopped) {
            (Some(tid), Some(stopped)) if stopped.holds(tid) => Ok(threads),
            (_, Some(_)) => Err(moved("another thread took the GIL")),
            (_, None) if is_held_off_cpu(self.threads, gil) => Ok(threads),
            (_, None) => Err(moved("the thread with the GIL ran while it was read")),
        }
    }

    /// The same where no thread holds the GIL.
    fn verify_free_gil(
        &mut self,
        stacks: Vec<ThreadStack>,
        gil: GilState,
        interpreter: usize,
        stopped: Option<&StoppedThreads>,
        deadline: Option<Instant>,
    ) -> ReadResult {
        if self.threads.single_thread().is_some_and(|tid| self.threads.recheck(tid) == Recheck::OffCpu) {
            return Ok(stacks);
        }
        let mut working = Vec::new();
        for thread in &stacks {
            let tid = self.threads.resolve(thread.native_id, thread.thread_id);
            if tid.is_some_and(|tid| {
                stopped.is_some_and(|stopped| stopped.holds(tid))
                    || !self.threads.may_have_run_in(tid, interpreter)
            }) {
                continue;
            }
            // Each takes microseconds, and there may be thousands.
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(slow("the threads could not be checked while they may be stopped (max-stop-ms)"));
            }
            match tid.map(|tid| self.threads.recheck(tid)) {
                Some(Recheck::OffCpu) => {}
                Some(Recheck::Ran) => return Err(moved("a thread ran while it was read")),
                Some(Recheck::OnCpu) | None => working.push((thread.thread_id, thread.stack)),
            }
        }
        if !working.is_empty() {
            let again = self.read_one(interpreter)?.threads;
            let same =
                |&(id, stack)| again.iter().any(|thread| thread.thread_id == id && thread.stack == stack);
            if !working.iter().all(same) {
                return Err(moved("a thread came by while it was read"));
            }
        }
        match self.reader.gil(interpreter)? == gil {
            true => Ok(stacks),
            false => Err(moved("a thread took the GIL")),
        }
    }

    /// Reads while no thread has a CPU, or with all threads stopped.
    fn attempt_all_off_cpu(&mut self, interpreters: &[usize], n: usize, stopper: &mut Stopper) -> ReadResult {
        if n < UNSTOPPED_TRIES && self.threads.were_all_off_cpu() {
            self.reader.set_deadline(self.unstopped_deadline(stopper, UNSTOPPED_READ_SHARE));
            let stacks = self.read_each(interpreters, &mut |_| {});
            self.reader.set_deadline(None);
            let stacks = stacks?;
            return match self.threads.are_all_off_cpu() {
                true => Ok(stacks),
                false => Err(moved("a thread ran while it was read")),
            };
        }
        let stop = stopper.stop().map_err(|refusal| refused(&refusal))?;
        self.reader.set_deadline(Some(stop.deadline()));
        let tids: Vec<i32> = stop.threads().collect();
        let mut stop = Some(stop);
        let stacks = self.read_each(interpreters, &mut |_| stop = None);
        drop(stop);
        self.reader.set_deadline(None);
        tids.iter().for_each(|&tid| self.threads.mark_stopped(tid));
        stacks
    }

    /// Calls `release` once nothing more is read.
    fn read_each(&mut self, interpreters: &[usize], release: &mut dyn FnMut(GilState)) -> ReadResult {
        let mut stacks = Vec::new();
        for (n, &interpreter) in interpreters.iter().enumerate() {
            let mut release = |gil| {
                if n + 1 == interpreters.len() {
                    release(gil)
                }
            };
            let threads = RefCell::new(&mut *self.threads);
            let read = read_one(self.reader, &threads, self.interner, interpreter, &mut release)?;
            stacks.extend(read.threads);
        }
        Ok(stacks)
    }

    fn read_one(&mut self, interpreter: usize) -> Result<Stacks, Failure> {
        let threads = RefCell::new(&mut *self.threads);
        read_one(self.reader, &threads, self.interner, interpreter, &mut |_| {})
    }

    fn mark_read(&mut self, stacks: &[ThreadStack]) {
        for thread in stacks {
            match self.threads.resolve(thread.native_id, thread.thread_id) {
                Some(tid) if thread.failed => self.threads.invalidate(tid),
                Some(tid) => self.threads.mark_read_in(tid, thread.interpreter),
                None => {}
            }
        }
    }

    /// A thread that was read in one interpreter and ran before it was read in the next is to be read in both.
    fn invalidate_ran(&mut self, stacks: &[ThreadStack]) {
        for thread in stacks {
            let Some(tid) = self.threads.resolve(thread.native_id, thread.thread_id) else { continue };
            if thread.failed || self.threads.may_have_run_in(tid, thread.interpreter) {
                self.threads.invalidate(tid);
            }
        }
    }

    fn mark_others_read(&mut self, stacks: &[ThreadStack]) {
        let found = |thread: &ThreadStack| self.threads.resolve(thread.native_id, thread.thread_id);
        let read_tids: Vec<i32> = stacks.iter().filter_map(found).collect();
        self.threads.mark_read_except(&read_tids);
    }
}

/// Threads that stand still.
struct StoppedThreads {
    tids: Vec<i32>,
    /// When they have to go on.
    deadline: Instant,
}

impl StoppedThreads {
    fn holds(&self, tid: i32) -> bool {
        self.tids.contains(&tid)
    }
}

fn read_one(
    reader: &mut dyn StackReader,
    threads: &RefCell<&mut Threads>,
    interner: &mut StackInterner,
    interpreter: usize,
    release: &mut dyn FnMut(GilState),
) -> Result<Stacks, Failure> {
    let named = reader.has_native_ids(interpreter);
    let mut ran = |native_id| {
        let threads = threads.borrow();
        let tid = threads.resolve(Some(native_id), 0).filter(|_| named);
        tid.is_none_or(|tid| threads.may_have_run_in(tid, interpreter))
    };
    reader.read_and_release(interpreter, &mut ran, interner, release)
}

/// Whether the thread that held the GIL when the reading began had no CPU since: it still has the GIL, and nobody else
/// did.
fn is_held_off_cpu(threads: &mut Threads, gil: GilState) -> bool {
    match holder_tid(threads, gil) {
        Some(tid) => threads.recheck(tid) == Recheck::OffCpu,
        None => threads.were_all_off_cpu() && threads.are_all_off_cpu(),
    }
}

/// The thread that holds the GIL.
fn holder_tid(threads: &Threads, gil: GilState) -> Option<i32> {
    threads.resolve(gil.native_id, 0).or_else(|| threads.single_thread())
}

fn slow(what: &str) -> Failure {
    Failure::new("slow", &what)
}

fn moved(what: &str) -> Failure {
    Failure::transient("moved", &what)
}

fn refused(refusal: &StopError) -> Failure {
    match refusal {
        StopError::Gone => Failure::transient(refusal.kind(), refusal),
        _ => Failure::new(refusal.kind(), refusal),
    }
}

#[cfg(test)]
mod tests;
