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
use crate::stacks::stack_interner::{StackId, StackInterner};
use crate::stacks::stack_reader::{
    Failure, GilState, MemoryReading, StackReader, Stacks, ThreadStack, Verify,
};
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// A reading that was not true is made again after these pauses: a call that was found half entered needs
/// nanoseconds to be entered, but its thread may have to wait for a CPU first, perhaps the one that reads it.
const RETRY_PAUSES_US: [u64; 8] = [20, 20, 100, 200, 400, 800, 1600, 3200];
/// How often a thread without a CPU is read without a stop. If it gets a CPU each time, it is stopped.
const UNSTOPPED_TRIES: usize = 4;

/// The share of the longest stop for which a thread without a CPU is read, and until which the reading is verified. What
/// follows keeps it from its CPU as well.
pub(super) const UNSTOPPED_READ_SHARE: f64 = 0.75;
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
    /// Each thread that runs, for its own reading (`thread_stop`).
    EachThread,
}

pub(super) type ReadResult = Result<Vec<ThreadStack>, Failure>;

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
            stacks = self.retry_while_transient(&mut reobserved, stopper, |reading, n, stopper| {
                reading.attempt_all_off_cpu(&interpreters, n, stopper)
            })?;
            self.mark_read(&stacks);
        } else {
            for &interpreter in &interpreters {
                let attempt = |reading: &mut Self, n, stopper: &mut Stopper| match reading
                    .reader
                    .has_native_ids(interpreter)
                {
                    _ if scope == StopScope::EachThread => reading.attempt_each(interpreter, n, stopper),
                    true => reading.attempt(interpreter, n, stopper),
                    false => reading.attempt_all_off_cpu(&[interpreter], n, stopper),
                };
                let mut found = self.retry_while_transient(&mut reobserved, stopper, attempt)?;
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

    /// Reads what belongs to no thread, of one interpreter. No thread counts as read by it; all have to be read anew.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn read_shared(&mut self, interpreter: usize, stopper: &mut Stopper) -> Result<(), Failure> {
        self.retry_while_transient(&mut false, stopper, |reading, n, stopper| {
            // Whoever did not run since its stack was read may do so now.
            reading.threads.invalidate_all();
            reading.attempt(interpreter, n, stopper)
        })?;
        Ok(())
    }

    /// Repeats an attempt until it succeeds or there is no point.
    fn retry_while_transient(
        &mut self,
        reobserved: &mut bool,
        stopper: &mut Stopper,
        mut attempt: impl FnMut(&mut Self, usize, &mut Stopper) -> ReadResult,
    ) -> ReadResult {
        let mut n = 0;
        loop {
            match attempt(self, n, stopper) {
                Err(failure) if failure.retry && n < RETRY_PAUSES_US.len() => {}
                done => return done,
            }
            std::thread::sleep(Duration::from_micros(RETRY_PAUSES_US[n]));
            self.threads.stay.begin();
            n += 1;
            let observed = self.threads.observe_and(&mut || stopper.release_pending_if_any());
            observed.map_err(|error| Failure::of_files(&error))?;
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
        let deadline = self.unstopped_deadline(stopper, UNSTOPPED_SHARE);
        let threads = RefCell::new(&mut *self.threads);
        let mut verified = false;
        let mut verify = |reading: MemoryReading<'_>| {
            let mut threads = threads.borrow_mut();
            verified = verify_memory(&mut threads, reading, interpreter, None, deadline)?;
            if verified && !stopper.has_pending_stops() {
                // What follows takes long where there is much to build.
                threads.end_displacement();
            }
            Ok(verified)
        };
        let stacks = read_one(self.reader, &threads, self.interner, interpreter, &mut verify);
        self.reader.set_deadline(deadline);
        let verified = stacks.and_then(|stacks| match verified {
            true => Ok(stacks.threads),
            false => self.verify_stacks(stacks, interpreter, None, deadline),
        });
        self.reader.end_reading();
        verified
    }

    /// The deadline of a reading without a stop. A preempted thread may wait for the CPU of the reader: that must not
    /// take longer than a stop.
    pub(super) fn unstopped_deadline(&self, stopper: &Stopper, share: f64) -> Option<Instant> {
        let looked = self.threads.preempted_thread().and(self.threads.observed_at);
        looked.map(|looked| looked + stopper.limits.max_stop.mul_f64(share))
    }

    /// Reads with these threads stopped, for as long as their memory is read.
    fn read_stopped(&mut self, interpreter: usize, tids: &[i32], stopper: &mut Stopper) -> ReadResult {
        let stop = stopper.stop_these(tids).map_err(|refusal| refused(&refusal))?;
        let (tids, deadline): (Vec<i32>, _) = (stop.threads().collect(), stop.deadline());
        self.reader.set_deadline(Some(deadline));
        let mut stop = Some(stop);
        let mut was_verified = false;
        let threads = RefCell::new(&mut *self.threads);
        let mut verify = |reading: MemoryReading<'_>| {
            let verified =
                verify_memory(&mut threads.borrow_mut(), reading, interpreter, Some(&tids), Some(deadline));
            was_verified = !matches!(verified, Ok(false));
            if was_verified {
                stop = None;
            }
            verified
        };
        let read = read_one(self.reader, &threads, self.interner, interpreter, &mut verify);
        let stacks = match read {
            Ok(stacks) if was_verified => Ok(stacks.threads),
            Ok(stacks) => self.verify_stacks(stacks, interpreter, Some(&tids), Some(deadline)),
            Err(failure) if was_verified => Err(failure),
            // Whatever was wrong, it moved.
            Err(failure) => match self.reader.gil(interpreter) {
                Ok(gil) if gil.holder != 0 && !is_held_by(self.threads, gil, &tids) => {
                    Err(moved("another thread took the GIL"))
                }
                _ => Err(failure),
            },
        };
        drop(stop);
        self.reader.end_reading();
        tids.iter().for_each(|&tid| self.threads.mark_stopped(tid));
        stacks
    }

    /// Checks that a reading is consistent for which some thread worked without the GIL: it is read once more.
    fn verify_stacks(
        &mut self,
        stacks: Stacks,
        interpreter: usize,
        stopped: Option<&[i32]>,
        deadline: Option<Instant>,
    ) -> ReadResult {
        let Stacks { threads, gil } = stacks;
        let mut ids = threads
            .iter()
            .filter(|thread| !thread.failed)
            .map(|thread| ((thread.thread_id, thread.native_id), thread.stack));
        let working = find_working(self.threads, &mut ids, interpreter, stopped, deadline)?;
        if !working.is_empty() {
            let again = self.read_one(interpreter)?.threads;
            let same = |&((id, _), stack): &(ThreadIds, StackId)| {
                again.iter().any(|thread| thread.thread_id == id && thread.stack == stack)
            };
            if !working.iter().all(same) {
                return Err(moved("a thread came by while it was read"));
            }
        }
        match self.reader.gil(interpreter)? == gil {
            true => Ok(threads),
            false => Err(moved("a thread took the GIL")),
        }
    }

    /// Reads while no thread has a CPU, or with all threads stopped.
    fn attempt_all_off_cpu(&mut self, interpreters: &[usize], n: usize, stopper: &mut Stopper) -> ReadResult {
        if n < UNSTOPPED_TRIES && self.threads.were_all_off_cpu() {
            self.reader.set_deadline(self.unstopped_deadline(stopper, UNSTOPPED_READ_SHARE));
            let deadline = self.unstopped_deadline(stopper, UNSTOPPED_SHARE);
            let stacks =
                self.read_each(interpreters, &mut |threads| match threads.are_all_off_cpu(deadline) {
                    Some(true) => Ok(()),
                    Some(false) => Err(moved("a thread ran while it was read")),
                    None => Err(unchecked()),
                });
            self.reader.end_reading();
            return stacks;
        }
        let stop = stopper.stop().map_err(|refusal| refused(&refusal))?;
        self.reader.set_deadline(Some(stop.deadline()));
        let tids: Vec<i32> = stop.threads().collect();
        let mut stop = Some(stop);
        let stacks = self.read_each(interpreters, &mut |_| {
            stop = None;
            Ok(())
        });
        drop(stop);
        self.reader.end_reading();
        tids.iter().for_each(|&tid| self.threads.mark_stopped(tid));
        stacks
    }

    /// Calls `verify` once nothing more is read.
    fn read_each(
        &mut self,
        interpreters: &[usize],
        verify: &mut dyn FnMut(&mut Threads) -> Result<(), Failure>,
    ) -> ReadResult {
        let mut stacks = Vec::new();
        for (n, &interpreter) in interpreters.iter().enumerate() {
            let is_last = n + 1 == interpreters.len();
            let threads = RefCell::new(&mut *self.threads);
            let mut verify = |_: MemoryReading<'_>| {
                if is_last {
                    verify(&mut threads.borrow_mut())?;
                }
                Ok(is_last)
            };
            let read = read_one(self.reader, &threads, self.interner, interpreter, &mut verify)?;
            stacks.extend(read.threads);
        }
        Ok(stacks)
    }

    fn read_one(&mut self, interpreter: usize) -> Result<Stacks, Failure> {
        let threads = RefCell::new(&mut *self.threads);
        read_one(self.reader, &threads, self.interner, interpreter, &mut |_| Ok(false))
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

/// The pthread_t of a thread, and the kernel's id of it as the target itself sees it.
type ThreadIds = (u64, Option<i32>);

pub(super) fn read_one(
    reader: &mut dyn StackReader,
    threads: &RefCell<&mut Threads>,
    interner: &mut StackInterner,
    interpreter: usize,
    verify: &mut Verify<'_>,
) -> Result<Stacks, Failure> {
    let named = reader.has_native_ids(interpreter);
    let mut ran = |native_id| {
        let threads = threads.borrow();
        let tid = threads.resolve(Some(native_id), 0).filter(|_| named);
        tid.is_none_or(|tid| threads.may_have_run_in(tid, interpreter))
    };
    reader.read_and_verify(interpreter, &mut ran, interner, verify)
}

/// Checks that a reading of memory is consistent; `stopped` are the threads that stand still for it, if any. False if a
/// thread works without the GIL: then its stack decides. The check is given up at the deadline.
fn verify_memory(
    threads: &mut Threads,
    reading: MemoryReading<'_>,
    interpreter: usize,
    stopped: Option<&[i32]>,
    deadline: Option<Instant>,
) -> Result<bool, Failure> {
    let MemoryReading { gil, threads: read, gil_now } = reading;
    if gil.holder != 0 {
        return match stopped {
            Some(tids) if is_held_by(threads, gil, tids) => Ok(true),
            Some(_) => Err(moved("another thread took the GIL")),
            None => verify_held_off_cpu(threads, gil, deadline),
        };
    }
    if threads.single_thread().is_some_and(|tid| threads.recheck(tid) == Recheck::OffCpu) {
        return Ok(true);
    }
    let mut read = read.map(|ids| (ids, ()));
    if !find_working(threads, &mut read, interpreter, stopped, deadline)?.is_empty() {
        return Ok(false);
    }
    match gil_now()? == gil {
        true => Ok(true),
        false => Err(moved("a thread took the GIL")),
    }
}

/// The threads that worked all the time, while no thread held the GIL. Those that stood still need no check.
///
/// # Errors
/// `moved` if one ran for a while; `slow` at the deadline.
fn find_working<T>(
    threads: &mut Threads,
    read: &mut dyn Iterator<Item = (ThreadIds, T)>,
    interpreter: usize,
    stopped: Option<&[i32]>,
    deadline: Option<Instant>,
) -> Result<Vec<(ThreadIds, T)>, Failure> {
    let mut working = Vec::new();
    for (ids, with) in read {
        // Each takes up to some microseconds, and there may be thousands.
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(unchecked());
        }
        let tid = threads.resolve(ids.1, ids.0);
        let stands_still = |tid| {
            stopped.is_some_and(|stopped| stopped.contains(&tid))
                || !threads.may_have_run_in(tid, interpreter)
        };
        if tid.is_some_and(stands_still) {
            continue;
        }
        match tid.map(|tid| threads.recheck(tid)) {
            Some(Recheck::OffCpu) => {}
            Some(Recheck::Ran) => return Err(moved("a thread ran while it was read")),
            Some(Recheck::OnCpu) | None => working.push((ids, with)),
        }
    }
    Ok(working)
}

/// Checks that the thread that held the GIL when the reading began had no CPU since: it still has the GIL, and nobody
/// else did.
fn verify_held_off_cpu(
    threads: &mut Threads,
    gil: GilState,
    deadline: Option<Instant>,
) -> Result<bool, Failure> {
    let off_cpu = match holder_tid(threads, gil) {
        Some(tid) => Some(threads.recheck(tid) == Recheck::OffCpu),
        None if threads.were_all_off_cpu() => threads.are_all_off_cpu(deadline),
        None => Some(false),
    };
    match off_cpu {
        Some(true) => Ok(true),
        Some(false) => Err(moved("the thread with the GIL ran while it was read")),
        None => Err(unchecked()),
    }
}

/// Whether one of these threads holds the GIL.
fn is_held_by(threads: &Threads, gil: GilState, tids: &[i32]) -> bool {
    holder_tid(threads, gil).is_some_and(|tid| tids.contains(&tid))
}

/// The thread that holds the GIL.
fn holder_tid(threads: &Threads, gil: GilState) -> Option<i32> {
    threads.resolve(gil.native_id, 0).or_else(|| threads.single_thread())
}

pub(super) fn unchecked() -> Failure {
    Failure::new("slow", &"the threads could not be checked while they may be stopped (max-stop-ms)")
}

pub(super) fn moved(what: &str) -> Failure {
    Failure::transient("moved", &what)
}

pub(super) fn refused(refusal: &StopError) -> Failure {
    match refusal {
        StopError::Gone => Failure::transient(refusal.kind(), refusal),
        _ => Failure::new(refusal.kind(), refusal),
    }
}

#[cfg(test)]
mod tests;
