//! Stopping threads of the target for the length of one reading: some of them, or all.
//!
//! Threads are seized, interrupted and waited for. PTRACE_SEIZE sends no SIGSTOP, so a sampler that dies leaves no
//! thread stopped. The wait is bounded: a thread asleep in the kernel (state D: a dead network disk, a vfork)
//! cannot stop. A thread that misses the bound stops later, so its stop stays pending, and `release_pending`
//! detaches it as soon as it stops. When the sampling thread ends, the kernel detaches every thread that it traced.
//!
//! A signal that arrives while a thread is seized is delivered when it is detached. A thread that another process
//! stops meanwhile (SIGSTOP) is detached as well: the kernel then puts it into the state which that signal wanted.
//!
//! The sampler waits for stops, and for exits of all but the main thread: no other process could reap those, and a
//! traced thread that is not reaped blocks an execve. The exit of the main thread belongs to the process's parent.
//! The kernel hides it from a parent in another process while the thread is traced, so there the tracer reaps it
//! first.

use crate::linux::os::thread_cpu_ns;
use crate::linux::proc_file::unless_exhausted;
use crate::linux::sched_priority::{self, TemporaryPriority};
use crate::linux::target::tracer_of;
use crate::linux::threads;
use crate::ptrace::stop_poll::{poll, poll_with_state, state, wait_nohang, PollResult};
pub use crate::ptrace::stop_stats::{StopLimits, StopStats};
use crate::ptrace::syscall_restart;
use std::fmt;
use std::io;
use std::time::{Duration, Instant};

/// How long a wait spins: a thread on another CPU stops within microseconds. If the sampler gave up its CPU to other
/// threads, that thread would stay stopped for as long as they run.
const SPIN: Duration = Duration::from_micros(50);
/// How long it yields after that; then it sleeps.
const YIELD: Duration = Duration::from_micros(200);
const NAP: Duration = Duration::from_micros(50);
/// Of the time for which threads may be stopped this part is left for the last piece of a reading and for letting
/// them go.
const RESERVED_SHARE: u32 = 16;
/// Of threads that are waited for, the states of so many are read in a round: each takes 10 µs, and others stand still.
const STATES_PER_ROUND: usize = 8;
/// Stopping many threads may take this part: letting them go takes as long.
const SEIZE_SHARE: u32 = 3;

/// Why the threads could not be stopped.
#[derive(Debug)]
pub enum StopError {
    /// The thread did not stop in time, or one that missed an earlier stop is still outstanding.
    Unstoppable(i32),
    /// The other threads would have been stopped for too long until it stopped.
    Slow(i32),
    /// It has another tracer.
    Traced(i32),
    /// It has ended.
    Gone,
    Denied(io::Error),
    /// A file of the process cannot be read: this process is out of descriptors.
    Unreadable(io::Error),
}

/// Stops the threads of one process. Use it from one OS thread only: ptrace ties a thread to its tracer.
#[derive(Debug)]
pub struct Stopper {
    pid: i32,
    pub limits: StopLimits,
    /// Threads that are seized and interrupted, but have not stopped yet.
    pending_stops: Vec<i32>,
    /// When none of them had stopped yet.
    pending_polled_at: Instant,
    /// The main thread ended while it was seized, and its exit was not reaped yet.
    exit_unreaped: bool,
    /// All stops since this was last taken.
    pub stops: StopStats,
    /// How long the last stop lasted.
    pub last_stop_ns: u64,
    /// CPU time of this thread when it first slept in the last stop: a thread without a CPU may have had its CPU since.
    pub napped_cpu_ns: Option<u64>,
    /// A thread that was stopped since this was last taken.
    pub last_stopped_tid: Option<i32>,
}

/// The threads stay stopped until this is dropped.
#[derive(Debug)]
pub struct StopGuard<'a> {
    stopper: &'a mut Stopper,
    /// Stopped threads, each with the signal that arrived at the same time and is still to be delivered.
    stopped: Vec<(i32, i32)>,
    waiting: Vec<i32>,
    began: Instant,
    stopped_since: Option<Instant>,
    /// CPU time of this thread at that time.
    cpu_since_ns: u64,
    /// How long the first thread stood still until the last one did.
    stopping: Duration,
    _priority: Option<TemporaryPriority>,
    /// An interrupted wait of the target is restarted.
    restarts_syscalls: bool,
}

impl Stopper {
    pub fn new(pid: i32, limits: StopLimits) -> Stopper {
        let (pending_stops, stops) = (Vec::new(), StopStats::default());
        Stopper {
            pid,
            limits,
            pending_stops,
            pending_polled_at: Instant::now(),
            exit_unreaped: false,
            stops,
            last_stop_ns: 0,
            napped_cpu_ns: None,
            last_stopped_tid: None,
        }
    }

    /// Stops all threads, new ones included.
    ///
    /// # Errors
    /// If not all can be stopped within the limits; those that were are detached.
    pub fn stop(&mut self) -> Result<StopGuard<'_>, StopError> {
        self.last_stop_ns = 0;
        self.release_pending();
        if let Some(&tid) = self.pending_stops.first() {
            return Err(StopError::Unstoppable(tid));
        }
        let max_seize = self.limits.max_stop / SEIZE_SHARE;
        let mut stop = StopGuard::begin(self, false);
        let mut seized_tids: Vec<i32> = Vec::new();
        loop {
            let listed = unless_exhausted(threads::list_tids(stop.stopper.pid));
            let listed = match listed {
                Ok(listed) => listed.ok_or(StopError::Gone)?,
                Err(error) => return Err(stop.abort(StopError::Unreadable(error))),
            };
            let new_tids: Vec<i32> = listed.into_iter().filter(|tid| !seized_tids.contains(tid)).collect();
            if new_tids.is_empty() {
                break;
            }
            if new_tids.len() > 1 {
                // The first ones stand still before the last ones are seized.
                stop.begin_stop(Instant::now());
            }
            for &tid in &new_tids {
                if stop.stopped_since.is_some_and(|since| since.elapsed() >= max_seize) {
                    return Err(stop.abort(StopError::Slow(tid)));
                }
                match stop.seize(tid) {
                    Ok(()) | Err(StopError::Gone) => {}
                    Err(refusal) => return Err(stop.abort(refusal)),
                }
            }
            seized_tids.extend(new_tids);
            stop.wait()?;
        }
        match stop.stopped.is_empty() {
            true => Err(StopError::Gone),
            false => Ok(stop),
        }
    }

    /// Stops these threads, or those of them that have not ended. They should be on a CPU, or about to be: one that
    /// sleeps would be woken.
    ///
    /// # Errors
    /// If one cannot be stopped within the limits; those that were are detached.
    pub fn stop_these(&mut self, tids: &[i32]) -> Result<StopGuard<'_>, StopError> {
        self.last_stop_ns = 0;
        if !self.release_pending() {
            if let Some(&tid) = self.pending_stops.iter().find(|tid| tids.contains(tid)) {
                return Err(StopError::Unstoppable(tid));
            }
        }
        let mut stop = StopGuard::begin(self, true);
        for &tid in tids {
            match stop.seize(tid) {
                Ok(()) | Err(StopError::Gone) => {}
                Err(refusal) => return Err(stop.abort(refusal)),
            }
        }
        stop.wait()?;
        match stop.stopped.is_empty() {
            true => Err(StopError::Gone),
            false => Ok(stop),
        }
    }

    /// Whether `release_pending` still has threads to detach or an exit to reap.
    pub fn has_pending_stops(&self) -> bool {
        self.exit_unreaped || !self.pending_stops.is_empty()
    }

    /// Whether one of those threads may stop at any moment.
    pub fn has_runnable_pending_stops(&self) -> bool {
        self.pending_stops.iter().any(|&tid| !matches!(state(self.pid, tid), Ok(Some(b'D'))))
    }

    /// `release_pending`, where there is something to do.
    pub fn release_pending_if_any(&mut self) {
        if self.has_pending_stops() {
            self.release_pending();
        }
    }

    /// Detaches threads that missed an earlier stop and have stopped since. False while one is pending: call it again
    /// within a millisecond or two, because that thread stays stopped until then.
    pub fn release_pending(&mut self) -> bool {
        if self.exit_unreaped {
            self.exit_unreaped = !reaped(self.pid);
        }
        if self.pending_stops.is_empty() {
            return !self.exit_unreaped;
        }
        let mut pending_stops = std::mem::take(&mut self.pending_stops);
        let since = std::mem::replace(&mut self.pending_polled_at, Instant::now());
        pending_stops.retain(|&tid| match poll_with_state(self.pid, tid) {
            PollResult::Stopped(signal) => {
                let detached = detach(tid, signal);
                if detached {
                    // It stood still since then, at most.
                    let stopped_ns = since.elapsed().as_nanos() as u64;
                    self.stops.add(StopStats::one(stopped_ns, 0, self.limits.max_stop));
                }
                !detached
            }
            PollResult::Gone => {
                self.handle_exit(tid);
                false
            }
            PollResult::Pending => true,
        });
        self.pending_stops.append(&mut pending_stops);
        self.pending_stops.is_empty() && !self.exit_unreaped
    }

    /// Cleans up after a seized thread that has ended.
    fn handle_exit(&mut self, tid: i32) {
        if tid == self.pid {
            self.exit_unreaped = !reaped(tid);
        } else if may_be_traced_by_this_thread(self.pid) && !self.pending_stops.contains(&self.pid) {
            // It did an execve, and with it came into the main thread's place, as seized as before.
            self.pending_stops.push(self.pid);
        }
    }
}

impl<'a> StopGuard<'a> {
    fn begin(stopper: &'a mut Stopper, restarts_syscalls: bool) -> StopGuard<'a> {
        let priority = sched_priority::raise();
        stopper.napped_cpu_ns = None;
        StopGuard {
            stopper,
            stopped: Vec::new(),
            waiting: Vec::new(),
            began: Instant::now(),
            stopped_since: None,
            cpu_since_ns: 0,
            stopping: Duration::ZERO,
            _priority: priority,
            restarts_syscalls,
        }
    }

    /// The time at which letting the target go has to begin.
    pub fn deadline(&self) -> Instant {
        let max_stop = self.stopper.limits.max_stop;
        let reserved = max_stop / RESERVED_SHARE + self.stopping;
        self.stopped_since.unwrap_or(self.began) + max_stop.saturating_sub(reserved)
    }

    /// From now on threads may stand still.
    fn begin_stop(&mut self, since: Instant) {
        if self.stopped_since.is_none() {
            self.stopped_since = Some(since);
            self.cpu_since_ns = thread_cpu_ns();
        }
    }

    /// The stopped threads.
    pub fn threads(&self) -> impl Iterator<Item = i32> + '_ {
        self.stopped.iter().map(|&(tid, _)| tid)
    }

    pub fn holds(&self, tid: i32) -> bool {
        self.threads().any(|held| held == tid)
    }

    fn seize(&mut self, tid: i32) -> Result<(), StopError> {
        match ptrace(libc::PTRACE_SEIZE, tid, 0) {
            Ok(()) => {
                self.waiting.push(tid);
                // Fails only if the thread has just ended, which waiting finds out.
                let _ = ptrace(libc::PTRACE_INTERRUPT, tid, 0);
                Ok(())
            }
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => Err(StopError::Gone),
            Err(e) => match tracer_of(tid) {
                Err(error) => Err(StopError::Unreadable(error)),
                // Seized already when a stop before this one did not see it stop.
                Ok(tracer) if tracer == Some(this_thread()) => {
                    self.waiting.push(tid);
                    Ok(())
                }
                // A thread on its way out refuses with EPERM as well.
                Ok(_) if ended(self.stopper.pid, tid) => Err(StopError::Gone),
                Ok(Some(_)) => Err(StopError::Traced(tid)),
                Ok(None) => Err(StopError::Denied(e)),
            },
        }
    }

    fn wait(&mut self) -> Result<(), StopError> {
        let pid = self.stopper.pid;
        let mut before = Instant::now();
        let (spun, yielded) = (before + SPIN, before + YIELD);
        loop {
            let now = Instant::now();
            let with_state = now >= yielded;
            let mut polls = 0;
            let mut gone = None;
            let stopped = &mut self.stopped;
            let mut poll = |tid| {
                polls += 1;
                match with_state && polls <= STATES_PER_ROUND {
                    true => poll_with_state(pid, tid),
                    false => poll(pid, tid),
                }
            };
            self.waiting.retain(|&tid| match poll(tid) {
                PollResult::Stopped(signal) => {
                    stopped.push((tid, signal));
                    false
                }
                PollResult::Gone => {
                    gone = Some(tid);
                    false
                }
                PollResult::Pending => true,
            });
            if let Some(tid) = gone {
                self.handle_exit(tid);
            }
            if !self.stopped.is_empty() {
                self.begin_stop(before);
            }
            before = now;
            match self.waiting.first() {
                None => {
                    self.stopping = self.stopped_since.map_or(Duration::ZERO, |since| now - since);
                    return Ok(());
                }
                Some(&tid) if now >= self.began + self.stopper.limits.max_wait => {
                    return Err(StopError::Unstoppable(tid));
                }
                Some(&tid) if self.stopped_since.is_some() && now >= self.deadline() => {
                    return Err(StopError::Slow(tid));
                }
                Some(_) if now < spun => std::hint::spin_loop(),
                Some(_) if now < yielded => std::thread::yield_now(),
                Some(_) => {
                    self.stopper.napped_cpu_ns.get_or_insert_with(thread_cpu_ns);
                    std::thread::sleep(NAP);
                }
            }
        }
    }

    /// Detaches threads that stop within the limits at once, rather than in `release_pending`.
    fn abort(mut self, refusal: StopError) -> StopError {
        let _ = self.wait();
        refusal
    }

    fn handle_exit(&mut self, tid: i32) {
        let held = |tid| self.stopped.iter().any(|&(held, _)| held == tid) || self.waiting.contains(&tid);
        if !held(self.stopper.pid) {
            self.stopper.handle_exit(tid);
        }
    }
}

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        for &(tid, signal) in &self.stopped {
            if self.restarts_syscalls {
                syscall_restart::restart_interrupted(tid);
            }
            if !detach(tid, signal) {
                self.stopper.pending_stops.push(tid);
            }
        }
        if !self.waiting.is_empty() {
            self.stopper.pending_polled_at = Instant::now();
        }
        self.stopper.pending_stops.append(&mut self.waiting);
        let stopped_ns = self.stopped_since.map_or(0, |since| since.elapsed().as_nanos() as u64);
        self.stopper.last_stop_ns = stopped_ns;
        self.stopper.last_stopped_tid =
            self.stopped.first().map(|&(tid, _)| tid).or(self.stopper.last_stopped_tid);
        if self.stopped_since.is_some() {
            let cpu_ns = thread_cpu_ns().saturating_sub(self.cpu_since_ns);
            self.stopper.stops.add(StopStats::one(stopped_ns, cpu_ns, self.stopper.limits.max_stop));
        }
    }
}

impl StopError {
    /// The word under which the failed tick is counted.
    pub fn kind(&self) -> &'static str {
        match self {
            StopError::Unstoppable(_) => "unstoppable",
            StopError::Slow(_) => "slow",
            StopError::Traced(_) => "traced",
            StopError::Gone => "leaving",
            StopError::Denied(_) => "lock",
            StopError::Unreadable(_) => "descriptors",
        }
    }
}

impl fmt::Display for StopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopError::Unstoppable(tid) => write!(f, "thread {tid} does not stop"),
            StopError::Slow(tid) => write!(f, "thread {tid} kept the others waiting too long"),
            StopError::Traced(tid) => write!(f, "thread {tid} has another tracer"),
            StopError::Gone => write!(f, "the thread has ended"),
            StopError::Denied(error) | StopError::Unreadable(error) => write!(f, "{error}"),
        }
    }
}

/// Whether the parent of a process can see its exit, if it ended while its main thread was seized. Reaps the exit
/// first where needed.
fn reaped(pid: i32) -> bool {
    if !may_be_traced_by_this_thread(pid) || parent(pid) == Some(std::process::id() as i32) {
        return true;
    }
    // Reported to a tracer that is not the parent's process, an exit is then reported to the parent (wait(2) keeps that
    // to itself; `wait_task_zombie` in the kernel's exit.c). Nothing is reported while other threads live.
    wait_nohang(pid, libc::WEXITED).is_none_or(|event| event.pid != 0)
}

fn parent(pid: i32) -> Option<i32> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let fields = std::str::from_utf8(stat.rsplit(|&byte| byte == b')').next()?).ok()?;
    fields.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn ended(pid: i32, tid: i32) -> bool {
    matches!(state(pid, tid), Ok(None | Some(b'Z' | b'X')))
}

/// True if it is not known: then the thread is polled, which needs no files.
fn may_be_traced_by_this_thread(tid: i32) -> bool {
    tracer_of(tid).map_or(true, |tracer| tracer == Some(this_thread()))
}

fn this_thread() -> i32 {
    // SAFETY: gettid takes no arguments.
    unsafe { libc::gettid() }
}

/// False if the thread could not be detached: it was killed while it was stopped.
fn detach(tid: i32, signal: i32) -> bool {
    ptrace(libc::PTRACE_DETACH, tid, signal).is_ok()
}

fn ptrace(request: libc::c_uint, tid: i32, argument: i32) -> io::Result<()> {
    // SAFETY: none of the three requests used here reads or writes memory of this process.
    match unsafe { libc::ptrace(request, tid, 0usize, argument as usize) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
