//! Holding threads of the target still for the length of one reading: one of them, or all.
//!
//! Threads are seized (PTRACE_SEIZE sends no SIGSTOP, so a sampler that dies leaves none behind), interrupted,
//! and waited for, with a bound: a thread asleep in the kernel (state D: a dead network disk, a vfork) cannot
//! stop. One that missed the bound stops later with nobody waiting, so it is remembered, and `settle` lets it go
//! as soon as it does. Everything ends with the sampling thread: the kernel detaches what it traced.
//!
//! A signal that comes while a thread is seized is handed on when it is let go. A thread that somebody else
//! stops meanwhile (SIGSTOP) is let go as well: the kernel then puts it where that signal wanted it.
//!
//! Waiting asks for stops, and for exits of all but the main thread: those nobody else could reap (a traced
//! thread that is not reaped blocks an execve), while the process's own exit belongs to its parent. It is hidden
//! from a parent that is another process for as long as it is traced, so there the tracer has to look first.

use crate::linux::target::{thread_state, tracer};
use crate::linux::threads;
use crate::ptrace::syscall_restart;
use std::fmt;
use std::io;
use std::time::{Duration, Instant};

/// Waiting keeps the CPU this long: a thread that is on another one stops within microseconds, and to give this
/// one up where others want it would be to hold that thread for as long as they run.
const SPIN: Duration = Duration::from_micros(50);
/// Then it yields this long, then it sleeps.
const YIELD: Duration = Duration::from_micros(200);
const NAP: Duration = Duration::from_micros(50);

/// How long a stop may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For all threads to stand still, from the first request. Whoever waits for a CPU is not harmed by it.
    pub wait: Duration,
    /// For any thread to stand still.
    pub hold: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { wait: Duration::from_millis(10), hold: Duration::from_millis(2) }
    }
}

/// How often threads of the target stood still, and how long, from the last moment at which they may have run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stops {
    pub stops: u64,
    pub stopped_ns: u64,
    pub longest_ns: u64,
}

/// Why nothing stands still.
#[derive(Debug)]
pub enum Refusal {
    /// The thread did not stop in time, or one that missed an earlier stop is still outstanding.
    Unstoppable(i32),
    /// The others would have stood still for too long until it stopped.
    Slow(i32),
    /// It has another tracer.
    Traced(i32),
    /// It has ended.
    Gone,
    Denied(io::Error),
}

/// Stops the threads of one process. Use it from one OS thread only: ptrace ties a thread to its tracer.
#[derive(Debug)]
pub struct Stopper {
    pid: i32,
    pub limits: Limits,
    /// Seized and interrupted, but not yet seen to stop.
    unsettled: Vec<i32>,
    /// The main thread ended while it was seized, and nobody has been told.
    unmourned: bool,
    /// All stops since this was last taken.
    pub stops: Stops,
    /// How long the last stop lasted.
    pub held_ns: u64,
    /// A thread that was held since this was last taken.
    pub last_held: Option<i32>,
}

/// The threads stand still until this is dropped.
#[derive(Debug)]
pub struct Stop<'a> {
    stopper: &'a mut Stopper,
    /// Stopped threads, each with the signal that arrived at the same time and is still to be delivered.
    held: Vec<(i32, i32)>,
    waiting: Vec<i32>,
    began: Instant,
    since: Option<Instant>,
    /// A wait of the target that was cut short goes on as if nothing had been.
    mends_waits: bool,
}

enum Seen {
    Stopped(i32),
    Gone,
    NotYet,
}

impl Stops {
    pub fn add(&mut self, more: Stops) {
        self.stops += more.stops;
        self.stopped_ns += more.stopped_ns;
        self.longest_ns = self.longest_ns.max(more.longest_ns);
    }
}

impl Stopper {
    pub fn of(pid: i32) -> Stopper {
        Stopper::within(pid, Limits::default())
    }

    pub fn within(pid: i32, limits: Limits) -> Stopper {
        let (unsettled, stops) = (Vec::new(), Stops::default());
        Stopper { pid, limits, unsettled, unmourned: false, stops, held_ns: 0, last_held: None }
    }

    /// Stops all threads, those born meanwhile included.
    ///
    /// # Errors
    /// If not all can be stopped within the limits; those that were are let go.
    pub fn stop(&mut self) -> Result<Stop<'_>, Refusal> {
        self.held_ns = 0;
        self.settle();
        if let Some(&tid) = self.unsettled.first() {
            return Err(Refusal::Unstoppable(tid));
        }
        let mut stop = Stop::begin(self, false);
        let mut known: Vec<i32> = Vec::new();
        loop {
            let listed = threads::list(stop.stopper.pid).map_err(|_| Refusal::Gone)?;
            let fresh: Vec<i32> = listed.into_iter().filter(|tid| !known.contains(tid)).collect();
            if fresh.is_empty() {
                break;
            }
            for &tid in &fresh {
                match stop.seize(tid) {
                    Ok(()) | Err(Refusal::Gone) => {}
                    Err(refusal) => return Err(stop.give_up(refusal)),
                }
            }
            known.extend(fresh);
            stop.wait()?;
        }
        match stop.held.is_empty() {
            true => Err(Refusal::Gone),
            false => Ok(stop),
        }
    }

    /// Stops these threads, or those of them that have not ended. They should be on a CPU, or about to be: one that
    /// sleeps would be woken.
    ///
    /// # Errors
    /// If one cannot be stopped within the limits; those that were are let go.
    pub fn stop_these(&mut self, tids: &[i32]) -> Result<Stop<'_>, Refusal> {
        self.held_ns = 0;
        if !self.settle() {
            if let Some(&tid) = self.unsettled.iter().find(|tid| tids.contains(tid)) {
                return Err(Refusal::Unstoppable(tid));
            }
        }
        let mut stop = Stop::begin(self, true);
        for &tid in tids {
            match stop.seize(tid) {
                Ok(()) | Err(Refusal::Gone) => {}
                Err(refusal) => return Err(stop.give_up(refusal)),
            }
        }
        stop.wait()?;
        match stop.held.is_empty() {
            true => Err(Refusal::Gone),
            false => Ok(stop),
        }
    }

    /// Whether `settle` has something left to do.
    pub fn is_unsettled(&self) -> bool {
        self.unmourned || !self.unsettled.is_empty()
    }

    /// Lets go of threads that missed an earlier stop and have stopped since. False while one is outstanding:
    /// then it is to be called again within a millisecond or two, for when that thread stops it stands still.
    pub fn settle(&mut self) -> bool {
        if self.unmourned {
            self.unmourned = !mourned(self.pid);
        }
        if self.unsettled.is_empty() {
            return !self.unmourned;
        }
        let mut unsettled = std::mem::take(&mut self.unsettled);
        unsettled.retain(|&tid| match look_closely(self.pid, tid) {
            Seen::Stopped(signal) => !detach(tid, signal),
            Seen::Gone => {
                self.lost(tid);
                false
            }
            Seen::NotYet => true,
        });
        self.unsettled.append(&mut unsettled);
        self.unsettled.is_empty() && !self.unmourned
    }

    /// Sees to what a thread leaves behind that was seized and is no more.
    fn lost(&mut self, tid: i32) {
        if tid == self.pid {
            self.unmourned = !mourned(tid);
        } else if traced_by_this_thread(self.pid) && !self.unsettled.contains(&self.pid) {
            // It did an execve, and with it came into the main thread's place, as seized as before.
            self.unsettled.push(self.pid);
        }
    }
}

impl<'a> Stop<'a> {
    fn begin(stopper: &'a mut Stopper, mends_waits: bool) -> Stop<'a> {
        let (held, waiting, began) = (Vec::new(), Vec::new(), Instant::now());
        Stop { stopper, held, waiting, began, since: None, mends_waits }
    }

    /// When the target has to be let go.
    pub fn deadline(&self) -> Instant {
        self.since.unwrap_or(self.began) + self.stopper.limits.hold
    }

    /// The threads that stand still.
    pub fn threads(&self) -> impl Iterator<Item = i32> + '_ {
        self.held.iter().map(|&(tid, _)| tid)
    }

    pub fn holds(&self, tid: i32) -> bool {
        self.threads().any(|held| held == tid)
    }

    fn seize(&mut self, tid: i32) -> Result<(), Refusal> {
        match ptrace(libc::PTRACE_SEIZE, tid, 0) {
            Ok(()) => {
                self.waiting.push(tid);
                // Fails only if the thread has just ended, which waiting finds out.
                let _ = ptrace(libc::PTRACE_INTERRUPT, tid, 0);
                Ok(())
            }
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => Err(Refusal::Gone),
            // Seized already when a stop before this one did not see it stop.
            Err(_) if traced_by_this_thread(tid) => {
                self.waiting.push(tid);
                Ok(())
            }
            // A thread on its way out refuses with EPERM as well.
            Err(_) if ended(self.stopper.pid, tid) => Err(Refusal::Gone),
            Err(_) if tracer(tid).is_some() => Err(Refusal::Traced(tid)),
            Err(e) => Err(Refusal::Denied(e)),
        }
    }

    fn wait(&mut self) -> Result<(), Refusal> {
        let pid = self.stopper.pid;
        let mut before = Instant::now();
        let (spun, yielded) = (before + SPIN, before + YIELD);
        loop {
            let now = Instant::now();
            let look = if now < yielded { look } else { look_closely };
            let mut gone = None;
            let held = &mut self.held;
            self.waiting.retain(|&tid| match look(pid, tid) {
                Seen::Stopped(signal) => {
                    held.push((tid, signal));
                    false
                }
                Seen::Gone => {
                    gone = Some(tid);
                    false
                }
                Seen::NotYet => true,
            });
            if let Some(tid) = gone {
                self.lost(tid);
            }
            if self.since.is_none() && !self.held.is_empty() {
                self.since = Some(before);
            }
            before = now;
            match self.waiting.first() {
                None => return Ok(()),
                Some(&tid) if now >= self.began + self.stopper.limits.wait => {
                    return Err(Refusal::Unstoppable(tid));
                }
                Some(&tid) if self.since.is_some() && now >= self.deadline() => {
                    return Err(Refusal::Slow(tid));
                }
                Some(_) if now < spun => std::hint::spin_loop(),
                Some(_) if now < yielded => std::thread::yield_now(),
                Some(_) => std::thread::sleep(NAP),
            }
        }
    }

    /// Those asked to stop are let go at once rather than when `settle` is called.
    fn give_up(mut self, refusal: Refusal) -> Refusal {
        let _ = self.wait();
        refusal
    }

    fn lost(&mut self, tid: i32) {
        let held = |tid| self.held.iter().any(|&(held, _)| held == tid) || self.waiting.contains(&tid);
        if !held(self.stopper.pid) {
            self.stopper.lost(tid);
        }
    }
}

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        for &(tid, signal) in &self.held {
            if self.mends_waits {
                syscall_restart::mend(tid);
            }
            if !detach(tid, signal) {
                self.stopper.unsettled.push(tid);
            }
        }
        self.stopper.unsettled.append(&mut self.waiting);
        let held_ns = self.since.map_or(0, |since| since.elapsed().as_nanos() as u64);
        self.stopper.held_ns = held_ns;
        self.stopper.last_held = self.held.first().map(|&(tid, _)| tid).or(self.stopper.last_held);
        let stops = &mut self.stopper.stops;
        stops.stops += u64::from(self.since.is_some());
        stops.stopped_ns += held_ns;
        stops.longest_ns = stops.longest_ns.max(held_ns);
    }
}

impl Refusal {
    /// The word under which the failed tick is counted.
    pub fn kind(&self) -> &'static str {
        match self {
            Refusal::Unstoppable(_) => "unstoppable",
            Refusal::Slow(_) => "slow",
            Refusal::Traced(_) => "traced",
            Refusal::Gone => "leaving",
            Refusal::Denied(_) => "lock",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Unstoppable(tid) => write!(f, "thread {tid} does not stop"),
            Refusal::Slow(tid) => write!(f, "thread {tid} kept the others waiting too long"),
            Refusal::Traced(tid) => write!(f, "thread {tid} has another tracer"),
            Refusal::Gone => write!(f, "the thread has ended"),
            Refusal::Denied(error) => write!(f, "{error}"),
        }
    }
}

/// A stop stays untold: should this process be killed before it lets the thread go, the kernel does, and hands it
/// the signal that it stopped with. Of a stop that was told to its tracer it believes that the tracer decides.
fn look(pid: i32, tid: i32) -> Seen {
    let exits = if tid == pid { 0 } else { libc::WEXITED };
    match wait_for(tid, libc::WSTOPPED | exits | libc::WNOWAIT) {
        None => Seen::Gone,
        Some(info) if info.who == 0 => Seen::NotYet,
        // Upper bits: a ptrace event, ours being PTRACE_EVENT_STOP. None: a signal on its way in.
        Some(Told { code: libc::CLD_TRAPPED | libc::CLD_STOPPED, status, .. }) => {
            Seen::Stopped(if status >> 8 == 0 { status } else { 0 })
        }
        Some(_) => {
            wait_for(tid, libc::WEXITED);
            Seen::Gone
        }
    }
}

struct Told {
    /// 0: there is nothing to tell.
    who: i32,
    code: i32,
    status: i32,
}

/// None if `tid` is not (or no longer) traced by this thread.
fn wait_for(tid: i32, what: libc::c_int) -> Option<Told> {
    let options = what | libc::WNOHANG | libc::__WALL | libc::__WNOTHREAD;
    // SAFETY: siginfo_t is plain old data, and `info` is valid to write to.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let failed = unsafe { libc::waitid(libc::P_PID, tid as libc::id_t, &mut info, options) } != 0;
    // SAFETY: waitid filled the child fields, or left the zeros if there was nothing to tell.
    (!failed).then(|| unsafe { Told { who: info.si_pid(), code: info.si_code, status: info.si_status() } })
}

/// `look`, and where there is nothing to be told, the thread's state itself: its stop may have been told to
/// another thread of this process that called waitpid, and a main thread's exit is told to its parent only.
///
/// The state is read first. Else a thread that ends in between is known to have ended and was not waited for, and
/// while a seized thread is not, its process is a zombie that its parent cannot reap. One whose state cannot be
/// read is looked at again: if it has gone, so `look` says then.
fn look_closely(pid: i32, tid: i32) -> Seen {
    let state = state(pid, tid);
    match (look(pid, tid), state) {
        (Seen::NotYet, Some(b'Z' | b'X')) => Seen::Gone,
        // Stopped since the first look, or told to somebody else: a second look knows.
        (Seen::NotYet, Some(b't')) => match look(pid, tid) {
            Seen::NotYet => Seen::Stopped(0),
            seen => seen,
        },
        (seen, _) => seen,
    }
}

/// Whether a process that may have ended while its main thread was seized can be seen to have ended by its
/// parent.
fn mourned(pid: i32) -> bool {
    if !traced_by_this_thread(pid) || parent(pid) == Some(std::process::id() as i32) {
        return true;
    }
    // Told to a tracer that is not the parent's process, an exit is then told to the parent (wait(2) keeps that
    // to itself; `wait_task_zombie` in the kernel's exit.c). Nothing is told while other threads live.
    wait_for(pid, libc::WEXITED).is_none_or(|told| told.who != 0)
}

fn parent(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn ended(pid: i32, tid: i32) -> bool {
    matches!(state(pid, tid), None | Some(b'Z' | b'X'))
}

fn traced_by_this_thread(tid: i32) -> bool {
    // SAFETY: gettid takes no arguments.
    tracer(tid) == Some(unsafe { libc::gettid() })
}

fn state(pid: i32, tid: i32) -> Option<u8> {
    thread_state(&std::fs::read(format!("/proc/{pid}/task/{tid}/stat")).ok()?)
}

/// False if the thread could not be let go: it was killed while it stood still.
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
