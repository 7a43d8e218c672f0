//! One thread of the target as the kernel shows it: whether it has run, is on a CPU, or wants one.
//!
//! Three counters are enough, and the kernel keeps all of them. The run count in /proc/PID/task/TID/schedstat is
//! the number of times the thread was given a CPU. `status` has the numbers of voluntary and involuntary context
//! switches. Unlike CPU times, which the kernel updates at clock ticks, all three change at the event itself. So:
//!
//! - The run count has not changed since an observation at which the thread had no CPU: it has not run. Its stack
//!   and its state are unchanged. A thread that was woken meanwhile but has had no CPU is still in its wait.
//! - The run count equals the sum of context switches: the thread has no CPU. Otherwise it is on one.
//! - The thread wants a CPU (state R) and has none: it waits for one (`cpu_wait`), unless this sampler took its CPU
//!   (`run_queue`). A thread that slept at the last observation and was woken since, but has had no CPU, still
//!   counts as waiting: finding it would cost a reading of `status` for each sleeping thread.
//! - Without the figures for that, after a voluntary switch it was woken from a wait and counts as idle, as in the
//!   kernel's CPU time. After an involuntary switch it was preempted at work and counts as busy.
//!
//! A thread that sleeps is in a system call, which tells what it waits for (`system_call`). It stays in the call as long
//! as it does not run, so that the file is read only of threads that have run.
//!
//! Reading `schedstat` costs 0.6 µs. Reading `status` costs 3 to 8 µs, and is done only for threads that have run. A thread
//! that slept and has run mostly sleeps again. The file `syscall` names a call only of a thread that sleeps without a
//! CPU, so between two equal run counts it makes `status` needless. It does not tell state T, which `Target` does.

use crate::linux::os::monotonic_ns;
use crate::linux::proc_file::{number, ProcFile};
use crate::linux::run_queue::{SamplerStay, SchedStat};
use crate::linux::system_call::{self, SystemCall, Wait};
use std::io;

/// The fields that every tick reads of a waiting thread come first, so that they share a cache line.
#[derive(Debug)]
#[repr(C)]
pub struct OsThread {
    schedstat: ProcFile,
    settled: Option<Settled>,
    status: ProcFile,
    /// None where the kernel's figures do not tell that a thread waits for a CPU.
    sched: Option<ProcFile>,
    /// None where it may not be read.
    syscall: Option<ProcFile>,
    /// The last observation, if any.
    last: Option<Observation>,
    /// The run count at which its stacks were read, if it had no CPU then.
    read_at_runs: Option<u64>,
    /// In these interpreters: a thread that runs code in one is still in whichever called that.
    read_interpreters: Vec<usize>,
}

/// What is known of a thread that has been on no CPU since its stacks were read, and does not wait for one.
#[derive(Clone, Copy, Debug)]
struct Settled {
    /// It stays settled while it has been given a CPU so often.
    runs: u64,
    /// Where its stack was read last; 0: in no interpreter.
    interpreter: usize,
    /// What it sleeps for.
    wait: Option<Wait>,
}

/// One observation of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Observation {
    at_ns: u64,
    /// None where the kernel does not count.
    stat: Option<SchedStat>,
    /// None if it slept, which was seen without them.
    switches: Option<ContextSwitches>,
    /// It was on no CPU.
    off_cpu: bool,
    busy: bool,
    /// It was runnable, without a CPU.
    runnable: bool,
    /// It was without a CPU because it waited for one.
    cpu_wait: bool,
    /// The time since it was last on a CPU, at most; None if unknown.
    off_cpu_ns: Option<u64>,
    /// What it slept for, without a CPU.
    wait: Option<Wait>,
    /// By a signal: state T.
    stopped: bool,
    /// It has ended, and the process has not: state Z, of a main thread.
    zombie: bool,
}

/// What the kernel shows of the threads of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visible {
    /// The figures that tell that a thread waits for a CPU.
    pub cpu_waits: bool,
    /// The system calls in which threads sleep.
    pub system_calls: bool,
}

/// Counts of context switches of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ContextSwitches {
    voluntary: u64,
    involuntary: u64,
}

/// What an observation shows about the time since the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It has been on no CPU since its stacks were read.
    Settled,
    /// It was on no CPU.
    OffCpu,
    /// The same, and it turns out that it has waited for one.
    BeganCpuWait,
    Ran,
    /// It has ended.
    Exited,
}

/// What a thread did since its last observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recheck {
    /// It was on no CPU and was given none.
    OffCpu,
    /// It was on a CPU and may have stayed there; or the kernel does not count.
    OnCpu,
    Ran,
}

impl OsThread {
    pub fn new(pid: i32, tid: i32, visible: Visible) -> OsThread {
        let file = |name| ProcFile::new(format!("/proc/{pid}/task/{tid}/{name}"));
        OsThread {
            schedstat: file("schedstat"),
            settled: None,
            status: file("status"),
            sched: visible.cpu_waits.then(|| file("sched")),
            syscall: visible.system_calls.then(|| ProcFile::new(system_call::path(pid, tid))),
            last: None,
            read_at_runs: None,
            read_interpreters: Vec::new(),
        }
    }

    /// `status` has some 1,500 bytes, with hundreds of CPUs 2,000 more.
    ///
    /// # Errors
    /// Those of `ProcFile::read`: its state is unknown then.
    pub fn observe(&mut self, stay: &mut SamplerStay) -> io::Result<Activity> {
        let observed = self.observe_files(stay);
        if observed.is_err() {
            (self.last, self.settled) = (None, None);
        }
        observed
    }

    fn observe_files(&mut self, stay: &mut SamplerStay) -> io::Result<Activity> {
        let before = match self.settled {
            Some(Settled { runs, .. }) => match SchedStat::read_unless(&mut self.schedstat, runs)? {
                Some(stat) => stat,
                None => return Ok(Activity::Settled),
            },
            None => SchedStat::read(&mut self.schedstat)?,
        };
        self.settled = None;
        if let Some(last) = self.last.as_mut().filter(|last| last.off_cpu && runs(before) == last.runs()) {
            if before.is_some() {
                let began =
                    last.runnable && !last.cpu_wait && last.at_ns < stay.since_ns && self.sched.is_some();
                last.cpu_wait |= began;
                return Ok(if began { Activity::BeganCpuWait } else { Activity::OffCpu });
            }
        }
        if let Some(asleep) = self.observe_sleep(before)? {
            self.last = Some(asleep);
            return Ok(Activity::Ran);
        }
        let Some((letter, switches)) = self.status.read::<8192, _>(parse_status)?.flatten() else {
            self.last = None;
            return Ok(Activity::Exited);
        };
        // After `status`: a thread that had got as many CPUs as it gave up, and has got no more, has none.
        let off_cpu = runs(before) == Some(switches.total());
        let wait = match &mut self.syscall {
            Some(syscall) if off_cpu && letter == b'S' => SystemCall::read(syscall)?.map(SystemCall::wait),
            Some(syscall) if off_cpu && letter == b'D' => {
                Some(SystemCall::uninterruptible_wait(SystemCall::read(syscall)?))
            }
            _ => None,
        };
        let stat = if off_cpu { SchedStat::read(&mut self.schedstat)? } else { before };
        let mut seen = Observation::new(letter, stat, switches, self.last);
        // If it has run since, it is not known what it waits for.
        seen.wait = wait.filter(|_| seen.off_cpu);
        if seen.wait == Some(Wait::Restarted) {
            // A stop of this sampler follows an observation.
            seen.wait = self.last.and_then(|last| last.wait);
        }
        seen.at_ns = monotonic_ns();
        seen.off_cpu_ns = seen.off_cpu_bound(self.last);
        if let (true, Some(sched)) = (seen.runnable, &mut self.sched) {
            if let Some((delay_ns, displaced)) = seen.delay_since(self.last) {
                stay.add_delay(delay_ns, displaced);
            }
            // A thread that was woken (it is not busy) was on no CPU.
            let displaced = seen.busy
                && (seen.off_cpu_ns.is_some_and(|ns| ns <= stay.max_displaced_ns())
                    || stay.displaced(sched)?.unwrap_or(true));
            seen.cpu_wait = !displaced;
            if displaced {
                seen.off_cpu_ns = Some(stay.length_ns());
            }
        }
        self.last = Some(seen);
        Ok(Activity::Ran)
    }

    /// Observes a thread that slept and has run since: None unless it turns out to sleep again.
    fn observe_sleep(&mut self, before: Option<SchedStat>) -> io::Result<Option<Observation>> {
        let slept = self.last.and_then(|last| last.wait).is_some_and(Wait::implies_state_s);
        // Without `sched`, only the numbers of switches tell a thread that is woken next from a preempted one.
        let Some(syscall) = self.syscall.as_mut().filter(|_| slept && self.sched.is_some()) else {
            return Ok(None);
        };
        let wait = SystemCall::read(syscall)?.map(SystemCall::wait).filter(|wait| wait.implies_state_s());
        if wait.is_none() {
            return Ok(None);
        }
        let stat = SchedStat::read(&mut self.schedstat)?;
        let stood_still = stat.is_some() && runs(stat) == runs(before);
        Ok(stood_still.then(|| Observation {
            at_ns: monotonic_ns(),
            stat,
            off_cpu: true,
            wait,
            ..Observation::default()
        }))
    }

    /// Whether it works, or would if it had a CPU; None if unknown.
    pub fn busy(&self) -> Option<bool> {
        self.settled.map(|_| false).or_else(|| self.last.map(|last| last.busy))
    }

    /// Whether it was runnable and had no CPU, though this sampler did not take it; false if unknown.
    pub fn waits_for_cpu(&self) -> bool {
        self.settled.is_none() && self.last.is_some_and(|last| last.cpu_wait)
    }

    /// What it slept for at the last observation; None if it did not, or if that is not known.
    pub fn wait(&self) -> Option<Wait> {
        match self.settled {
            Some(settled) => settled.wait,
            None => self.last.and_then(|last| last.wait),
        }
    }

    /// Was on no CPU at the last observation.
    pub fn is_off_cpu(&self) -> bool {
        self.settled.is_some() || self.last.is_some_and(|last| last.off_cpu)
    }

    /// Was on a CPU at the last observation, as far as is known.
    pub fn is_on_cpu(&self) -> bool {
        self.settled.is_none() && self.last.is_none_or(|last| !last.off_cpu && last.busy)
    }

    /// Was stopped by a signal at the last observation.
    pub fn is_stopped(&self) -> bool {
        self.last.is_some_and(|last| last.stopped)
    }

    /// Had ended at the last observation, as a main thread before the others.
    pub fn is_zombie(&self) -> bool {
        self.last.is_some_and(|last| last.zombie)
    }

    /// Whether it was preempted at work.
    pub fn is_preempted(&self) -> bool {
        self.settled.is_none() && self.last.is_some_and(|last| last.off_cpu && last.busy)
    }

    /// Whether it may have run between the last reading, in whichever interpreter, and the last observation.
    pub fn may_have_run(&self) -> bool {
        !self.is_off_cpu()
            || self.read_at_runs.is_none()
            || self.read_at_runs != self.last.and_then(|last| last.runs())
    }

    /// Whether its stack in this interpreter may have changed between the last reading of it and the last observation.
    pub fn may_have_run_in(&self, interpreter: usize) -> bool {
        match self.settled {
            Some(settled) if settled.interpreter == interpreter => false,
            _ => self.may_have_run() || !self.read_interpreters.contains(&interpreter),
        }
    }

    /// After the last observation it was in no interpreter, or in those that were read.
    pub fn mark_read(&mut self) {
        if self.settled.is_some() {
            return;
        }
        // If it was given a CPU between the two, the next observation sees that the count has moved.
        let runs = self.last.filter(|last| last.off_cpu).and_then(|last| last.runs());
        if self.read_at_runs != runs {
            self.read_interpreters.clear();
        }
        self.read_at_runs = runs;
        // Of a runnable thread the next observation finds out whether it waits for a CPU.
        self.settled = self.last.filter(|last| !last.runnable).zip(runs).map(|(last, runs)| Settled {
            runs,
            interpreter: 0,
            wait: last.wait,
        });
    }

    /// Its stack in this interpreter was read after the last observation.
    pub fn mark_read_in(&mut self, interpreter: usize) {
        self.mark_read();
        if let Some(settled) = &mut self.settled {
            if settled.interpreter == interpreter {
                return;
            }
            settled.interpreter = interpreter;
        }
        if !self.read_interpreters.contains(&interpreter) {
            self.read_interpreters.push(interpreter);
        }
    }

    /// Its last stacks must not be reused.
    pub fn invalidate(&mut self) {
        self.read_at_runs = None;
        self.settled = None;
        self.read_interpreters.clear();
    }

    /// It was stopped while it worked: for the kernel that was a voluntary switch.
    pub fn mark_stopped(&mut self) {
        if let Some(switches) = self.last.as_mut().and_then(|last| last.switches.as_mut()) {
            switches.voluntary += 1;
        }
    }

    /// What it did since the last observation.
    pub fn recheck(&mut self) -> Recheck {
        // It may have run, for all that is known.
        let Ok(stat) = SchedStat::read(&mut self.schedstat) else { return Recheck::Ran };
        let runs = runs(stat);
        match self.last {
            Some(last) if last.runs() != runs => Recheck::Ran,
            Some(last) if last.off_cpu => Recheck::OffCpu,
            Some(_) => Recheck::OnCpu,
            None => Recheck::Ran,
        }
    }
}

impl ContextSwitches {
    fn total(&self) -> u64 {
        self.voluntary + self.involuntary
    }
}

impl Observation {
    fn new(
        letter: u8,
        stat: Option<SchedStat>,
        switches: ContextSwitches,
        before: Option<Observation>,
    ) -> Observation {
        let off_cpu = runs(stat) == Some(switches.total());
        let woken = before.and_then(|before| before.switches).is_some_and(|before| {
            switches.voluntary > before.voluntary && switches.involuntary == before.involuntary
        });
        let busy = letter == b'R' && !(off_cpu && woken);
        let (runnable, stopped, zombie) = (letter == b'R' && off_cpu, letter == b'T', letter == b'Z');
        let (at_ns, off_cpu_ns, cpu_wait, wait) = (0, None, false, None);
        Observation {
            at_ns,
            stat,
            switches: Some(switches),
            off_cpu,
            busy,
            runnable,
            cpu_wait,
            off_cpu_ns,
            wait,
            stopped,
            zombie,
        }
    }

    /// How often it was given a CPU; None where the kernel does not count that.
    fn runs(&self) -> Option<u64> {
        runs(self.stat)
    }

    /// How long it has been runnable without a CPU since `before`, at which it had none, up to the last time it got one;
    /// and whether this sampler had displaced it then.
    fn delay_since(&self, before: Option<Observation>) -> Option<(u64, bool)> {
        let before = before.filter(|before| before.off_cpu)?;
        let delay_ns = self.stat?.delay_ns.checked_sub(before.stat?.delay_ns)?;
        Some((delay_ns, before.runnable && !before.cpu_wait))
    }

    /// The time since it was last on a CPU, at most: of the time since `before`, which it began without a CPU, what it
    /// neither spent on one nor waited for one.
    fn off_cpu_bound(&self, before: Option<Observation>) -> Option<u64> {
        let before = before.filter(|before| before.off_cpu)?;
        let (stat, stat_before) = (self.stat?, before.stat?);
        // A thread that slept has not waited for what it has been off the CPU.
        let waited_ns = if before.runnable { before.off_cpu_ns? } else { 0 };
        let accounted_ns =
            (stat.on_cpu_ns + stat.delay_ns).checked_sub(stat_before.on_cpu_ns + stat_before.delay_ns)?;
        Some((self.at_ns - before.at_ns + waited_ns).saturating_sub(accounted_ns))
    }
}

fn runs(stat: Option<SchedStat>) -> Option<u64> {
    stat.map(|stat| stat.runs)
}

/// The state letter, and the counts that stand in the last two lines.
fn parse_status(bytes: &[u8]) -> Option<(u8, ContextSwitches)> {
    let state = bytes.windows(8).find(|window| window == b"\nState:\t")?;
    let at = state.as_ptr() as usize - bytes.as_ptr() as usize + state.len();
    let mut from_last = bytes.trim_ascii_end().rsplit(|&byte| byte == b'\n');
    let mut count = |name: &[u8]| number(from_last.next()?.strip_prefix(name)?);
    let involuntary = count(b"nonvoluntary_ctxt_switches:\t")?;
    let voluntary = count(b"voluntary_ctxt_switches:\t")?;
    Some((*bytes.get(at)?, ContextSwitches { voluntary, involuntary }))
}

#[cfg(test)]
mod tests;
