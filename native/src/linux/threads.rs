//! The threads of the target: which exist, and which of them run.

use crate::linux::memory::{Memory, RemoteMemory};
use crate::linux::os::thread_cpu_ns;
use crate::linux::os_thread::{Activity, OsThread, Recheck, Visible};
use crate::linux::proc_file::unless_exhausted;
use crate::linux::run_queue::{has_figures, SamplerStay};
use crate::linux::sched_priority::{self, TemporaryPriority};
use crate::linux::system_call::has_system_calls;
use crate::linux::target::living_thread;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// Where glibc keeps a thread's id behind its pthread_t. Used only if it names a thread of the target.
#[cfg(target_arch = "x86_64")]
pub const PTHREAD_TID_OFFSET: usize = 720;
#[cfg(not(target_arch = "x86_64"))]
pub const PTHREAD_TID_OFFSET: usize = 208;

/// Observing more threads may take milliseconds.
const MANY_THREADS: u64 = 100;
/// After so many threads an observation lets its caller see to something else, which is less than every millisecond.
const THREADS_PER_CALL: usize = 64;

/// All threads as of the last observation.
#[derive(Debug)]
pub struct Threads {
    pid: i32,
    /// /proc/PID/task, whose link count says how many threads there are.
    task_dir: File,
    listed_link_count: u64,
    /// The last observation failed: threads may have come and gone since the one before.
    incomplete: bool,
    by_tid: BTreeMap<i32, OsThread>,
    memory: RemoteMemory,
    pub visible: Visible,
    /// At the last observation a thread that has not run turned out to wait for a CPU.
    pub began_cpu_wait: bool,
    /// The last observation found every thread settled.
    all_settled: bool,
    pub stay: SamplerStay,
    /// Since when a preempted thread may be without its CPU because of this sampler; its reader takes the value.
    pub observed_at: Option<Instant>,
    /// CPU time of the calling thread at that time.
    pub observed_cpu_ns: u64,
    /// Its CPU time when a displaced thread could go on, if that was before the end of the tick.
    pub released_cpu_ns: Option<u64>,
    /// An observation that takes more CPU time has no real-time priority: it would keep the target from its CPU.
    pub max_displacement: Duration,
    observes_slowly: bool,
    /// While a displaced thread may go on.
    lowered: Option<TemporaryPriority>,
    /// Where the target has another pid namespace: our thread ids by the ids in that namespace.
    inner_tids: Option<FxHashMap<i32, i32>>,
}

impl Threads {
    /// # Errors
    /// If there is no such process, or this process is out of descriptors.
    pub fn new(pid: i32) -> io::Result<Threads> {
        let task_dir = File::open(format!("/proc/{pid}/task"))?;
        let inner_tids = has_other_namespace(pid).then(FxHashMap::default);
        Ok(Threads {
            pid,
            task_dir,
            listed_link_count: 0,
            incomplete: false,
            by_tid: BTreeMap::new(),
            memory: RemoteMemory::new(pid),
            visible: Visible {
                cpu_waits: has_figures(pid, pid)?,
                system_calls: has_system_calls(pid, living_thread(pid).unwrap_or(pid))?,
            },
            began_cpu_wait: false,
            all_settled: false,
            stay: SamplerStay::default(),
            observed_at: None,
            observed_cpu_ns: 0,
            released_cpu_ns: None,
            max_displacement: Duration::MAX,
            observes_slowly: false,
            lowered: None,
            inner_tids,
        })
    }

    /// Whether an observation has no real-time priority. Until it is measured, the number of threads decides.
    pub fn observes_slowly(&self) -> bool {
        let is_large = || self.count().is_ok_and(|count| count > MANY_THREADS);
        self.observes_slowly
            || (self.by_tid.is_empty() && self.max_displacement < Duration::MAX && is_large())
    }

    /// Observes every thread. Call it before the target is stopped: later they all read as stopped.
    ///
    /// True if the threads had to be listed again.
    ///
    /// # Errors
    /// If the process has ended, or a state cannot be read because this process is out of descriptors.
    pub fn observe(&mut self) -> io::Result<bool> {
        self.observe_and(&mut || {})
    }

    /// The same. Calls `meanwhile` now and then.
    pub fn observe_and(&mut self, meanwhile: &mut dyn FnMut()) -> io::Result<bool> {
        let slowly = self.observes_slowly();
        self.lowered = None;
        let lowered = if slowly { sched_priority::lower() } else { None };
        let began_cpu_ns = self.begin_displacement();
        let observed = self.observe_all(meanwhile);
        drop(lowered);
        // It took no more CPU time than it lasted, and that clock is free.
        self.observes_slowly = !self.observed_within(self.max_displacement)
            && u128::from(thread_cpu_ns().saturating_sub(began_cpu_ns)) > self.max_displacement.as_nanos();
        if slowly {
            self.begin_displacement();
        }
        observed
    }

    /// Whether so little time has passed since `begin_displacement`.
    fn observed_within(&self, limit: Duration) -> bool {
        self.observed_at.is_some_and(|began| began.elapsed() <= limit)
    }

    fn begin_displacement(&mut self) -> u64 {
        (self.observed_at, self.observed_cpu_ns) = (Some(Instant::now()), thread_cpu_ns());
        self.released_cpu_ns = None;
        self.observed_cpu_ns
    }

    /// After a reading that took long, or will take long to store: a thread that was displaced may go on until
    /// `restore_priority`.
    pub fn end_displacement(&mut self) {
        if self.released_cpu_ns.is_some()
            || (!self.observes_slowly() && self.observed_within(self.max_displacement / 2))
        {
            return;
        }
        let cpu_ns = thread_cpu_ns();
        let took_ns = u128::from(cpu_ns.saturating_sub(self.observed_cpu_ns));
        if self.observes_slowly() || took_ns > self.max_displacement.as_nanos() / 2 {
            self.released_cpu_ns = Some(cpu_ns);
            self.lowered = sched_priority::lower();
        }
    }

    pub fn restore_priority(&mut self) {
        self.lowered = None;
    }

    fn observe_all(&mut self, meanwhile: &mut dyn FnMut()) -> io::Result<bool> {
        let was_incomplete = std::mem::replace(&mut self.incomplete, true);
        let (mut ran, mut gone) = (false, self.by_tid.is_empty() || was_incomplete);
        (self.began_cpu_wait, self.all_settled) = (false, false);
        let mut settled = true;
        for (n, thread) in self.by_tid.values_mut().enumerate() {
            if n % THREADS_PER_CALL == THREADS_PER_CALL - 1 {
                meanwhile();
            }
            let activity = thread.observe(&mut self.stay)?;
            settled &= activity == Activity::Settled;
            match activity {
                Activity::Settled | Activity::OffCpu => {}
                Activity::BeganCpuWait => self.began_cpu_wait = true,
                Activity::Ran => ran = true,
                Activity::Exited => gone = true,
            }
        }
        // Only a thread that runs makes others. As many threads as before are the same ones if none has ended.
        let links = if ran || gone { self.task_dir.metadata()?.nlink() } else { self.listed_link_count };
        let changed = gone || links != self.listed_link_count;
        self.all_settled = settled && !changed;
        if changed {
            self.relist(meanwhile)?;
            self.listed_link_count = links;
        }
        self.incomplete = false;
        Ok(changed)
    }

    /// How many threads there are.
    pub fn count(&self) -> io::Result<u64> {
        // `.` and `..` count as well.
        Ok(self.task_dir.metadata()?.nlink().saturating_sub(2))
    }

    fn relist(&mut self, meanwhile: &mut dyn FnMut()) -> io::Result<()> {
        let tids = list_tids(self.pid)?;
        let listed: FxHashSet<i32> = tids.iter().copied().collect();
        self.by_tid.retain(|tid, _| listed.contains(tid));
        for (n, &tid) in tids.iter().enumerate() {
            if n % THREADS_PER_CALL == THREADS_PER_CALL - 1 {
                meanwhile();
            }
            let new = || OsThread::new(self.pid, tid, self.visible);
            if self.by_tid.entry(tid).or_insert_with(new).observe(&mut self.stay)? == Activity::Exited {
                self.by_tid.remove(&tid);
            }
        }
        if let Some(inner_tids) = &mut self.inner_tids {
            inner_tids.retain(|_, tid| self.by_tid.contains_key(tid));
            let mapped: FxHashSet<i32> = inner_tids.values().copied().collect();
            for &tid in self.by_tid.keys().filter(|tid| !mapped.contains(tid)) {
                inner_tids.insert(inner_tid(self.pid, tid)?.unwrap_or(tid), tid);
            }
        }
        Ok(())
    }

    /// Our id of the thread that the interpreter calls `native_id` (if it is known) or `pthread`
    /// (0: not known); None if no thread can be identified with certainty.
    ///
    /// A program that embeds Python and forks in C, as uWSGI does, leaves `native_id` at the parent's thread
    /// until Python itself is told of the fork; glibc puts its own record right at once.
    pub fn resolve(&self, native_id: Option<i32>, pthread: u64) -> Option<i32> {
        let recorded = || match pthread {
            0 => None,
            _ => self.host_tid(self.read_i32((pthread as usize).wrapping_add(PTHREAD_TID_OFFSET))?),
        };
        native_id.and_then(|id| self.host_tid(id)).or_else(recorded)
    }

    fn read_i32(&self, address: usize) -> Option<i32> {
        let mut bytes = [0; size_of::<i32>()];
        self.memory.read(address, &mut bytes).ok()?;
        Some(i32::from_ne_bytes(bytes))
    }

    /// The only thread, if there is but one.
    pub fn single_thread(&self) -> Option<i32> {
        (self.by_tid.len() == 1).then(|| self.by_tid.keys().next().copied()).flatten()
    }

    /// Our id of the thread that has the id `inner_tid` in the target's pid namespace.
    fn host_tid(&self, inner_tid: i32) -> Option<i32> {
        let tid = match &self.inner_tids {
            Some(inner_tids) => *inner_tids.get(&inner_tid)?,
            None => inner_tid,
        };
        self.by_tid.contains_key(&tid).then_some(tid)
    }

    /// A thread, if it is one of these.
    pub fn get(&self, tid: i32) -> Option<&OsThread> {
        self.by_tid.get(&tid)
    }

    /// Was on no CPU at the last observation.
    pub fn is_off_cpu(&self, tid: i32) -> bool {
        self.by_tid.get(&tid).is_some_and(OsThread::is_off_cpu)
    }

    /// Whether a thread's stack in an interpreter may have changed between the last reading of it and the last
    /// observation.
    pub fn may_have_run_in(&self, tid: i32, interpreter: usize) -> bool {
        self.by_tid.get(&tid).is_none_or(|thread| thread.may_have_run_in(interpreter))
    }

    /// The threads that were on a CPU at the last observation.
    pub fn tids_on_cpu(&self) -> Vec<i32> {
        self.by_tid.iter().filter(|(_, thread)| thread.is_on_cpu()).map(|(&tid, _)| tid).collect()
    }

    /// The threads that may have been on a CPU at the last observation, by the ids the target knows them by.
    pub fn native_ids_not_off_cpu(&self) -> Vec<i32> {
        let inner = |tid: i32| match &self.inner_tids {
            Some(inner_tids) => inner_tids.iter().find(|(_, &known)| known == tid).map(|(&inner, _)| inner),
            None => Some(tid),
        };
        self.by_tid
            .iter()
            .filter(|(_, thread)| !thread.is_off_cpu())
            .filter_map(|(&tid, _)| inner(tid))
            .collect()
    }

    /// Whether the main thread was stopped by a signal at the last observation: all of them are then, or soon will be.
    /// Of a main thread that has ended, whether any other was.
    pub fn is_stopped(&self) -> bool {
        match self.by_tid.get(&self.pid) {
            Some(main) if !main.is_zombie() => main.is_stopped(),
            _ => self.by_tid.values().any(OsThread::is_stopped),
        }
    }

    /// A thread that was preempted at work.
    pub fn preempted_thread(&self) -> Option<i32> {
        if self.all_settled {
            return None;
        }
        self.by_tid.iter().find(|(_, thread)| thread.is_preempted()).map(|(&tid, _)| tid)
    }

    /// Whether no thread at all has run between the last reading of them all and the last observation.
    pub fn none_ran(&self) -> bool {
        self.all_settled
            || (!self.by_tid.is_empty() && self.by_tid.values().all(|thread| !thread.may_have_run()))
    }

    /// The stack of this thread in an interpreter was read after the last observation.
    pub fn mark_read_in(&mut self, tid: i32, interpreter: usize) {
        self.by_tid.get_mut(&tid).into_iter().for_each(|thread| thread.mark_read_in(interpreter));
    }

    /// All other threads were read completely after the last observation.
    pub fn mark_read_except(&mut self, tids: &[i32]) {
        let tids: FxHashSet<i32> = tids.iter().copied().collect();
        let others = self.by_tid.iter_mut().filter(|(tid, _)| !tids.contains(tid));
        others.for_each(|(_, thread)| thread.mark_read());
    }

    /// The last stacks of this thread must not be reused.
    pub fn invalidate(&mut self, tid: i32) {
        self.all_settled = false;
        self.by_tid.get_mut(&tid).into_iter().for_each(OsThread::invalidate);
    }

    /// No last stack may be reused.
    pub fn invalidate_all(&mut self) {
        self.all_settled = false;
        self.by_tid.values_mut().for_each(OsThread::invalidate);
    }

    /// This thread was stopped by us after the last observation.
    pub fn mark_stopped(&mut self, tid: i32) {
        self.by_tid.get_mut(&tid).into_iter().for_each(OsThread::mark_stopped);
    }

    /// What a thread did since the last observation.
    pub fn recheck(&mut self, tid: i32) -> Recheck {
        self.by_tid.get_mut(&tid).map_or(Recheck::Ran, OsThread::recheck)
    }

    /// Whether none was on a CPU at the last observation.
    pub fn were_all_off_cpu(&self) -> bool {
        self.by_tid.values().all(OsThread::is_off_cpu)
    }

    /// Whether none has run since the last observation, at which none was on a CPU, and no thread was created.
    /// None if there was no time to find out.
    pub fn are_all_off_cpu(&mut self, deadline: Option<Instant>) -> Option<bool> {
        for thread in self.by_tid.values_mut() {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return None;
            }
            if thread.recheck() != Recheck::OffCpu {
                return Some(false);
            }
        }
        let task_dir = self.task_dir.metadata();
        Some(task_dir.is_ok_and(|task_dir| task_dir.nlink() == self.listed_link_count))
    }
}

/// The thread ids of a process.
pub fn list_tids(pid: i32) -> io::Result<Vec<i32>> {
    let mut tids = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        tids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    Ok(tids)
}

/// Whether a process has a thread that has this id in its own pid namespace.
///
/// # Errors
/// If this process is out of descriptors.
pub fn has_thread(pid: i32, inner: i32) -> io::Result<bool> {
    if !has_other_namespace(pid) {
        return Ok(fs::metadata(format!("/proc/{pid}/task/{inner}")).is_ok());
    }
    for tid in unless_exhausted(list_tids(pid))?.unwrap_or_default() {
        if inner_tid(pid, tid)? == Some(inner) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a process has another pid namespace than this one.
fn has_other_namespace(pid: i32) -> bool {
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/pid")).ok();
    namespace(&pid.to_string()) != namespace("self")
}

fn inner_tid(pid: i32, tid: i32) -> io::Result<Option<i32>> {
    let status = unless_exhausted(fs::read(format!("/proc/{pid}/task/{tid}/status")))?;
    let status = status.unwrap_or_default();
    let ids = status.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"NSpid:"));
    let last = ids.and_then(|ids| std::str::from_utf8(ids).ok()?.split_ascii_whitespace().last());
    Ok(last.and_then(|id| id.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> (i32, u64) {
        // SAFETY: neither call takes arguments.
        unsafe { (libc::gettid(), libc::pthread_self() as u64) }
    }

    #[test]
    fn a_thread_is_found_by_its_kernel_id_and_by_its_pthread() {
        let mut threads = Threads::new(std::process::id() as i32).unwrap();
        threads.observe().unwrap();
        let (tid, pthread) = here();
        assert_eq!(threads.resolve(Some(tid), 0), Some(tid));
        assert_eq!(threads.resolve(None, pthread), Some(tid));
        // Thread 1 is not one of this process: the record behind the pthread decides.
        assert_eq!(threads.resolve(Some(1), pthread), Some(tid));
        assert_eq!(threads.resolve(Some(1), 0), None);
        assert_eq!(threads.resolve(None, 0), None);
        assert_eq!(threads.get(tid).and_then(OsThread::busy), Some(true));
        assert!(threads.tids_on_cpu().contains(&tid));
        assert!(!threads.none_ran() && threads.are_all_off_cpu(None) == Some(false));
        assert_eq!(threads.are_all_off_cpu(Some(Instant::now())), None);
    }

    #[test]
    fn threads_of_a_foreign_namespace_go_by_the_ids_that_the_target_uses() {
        let mut threads = Threads::new(std::process::id() as i32).unwrap();
        threads.inner_tids = Some(FxHashMap::default());
        threads.observe().unwrap();
        let (tid, _) = here();
        assert_eq!(threads.resolve(inner_tid(threads.pid, tid).unwrap(), 0), Some(tid));
    }

    #[test]
    fn threads_are_listed_anew_when_one_is_born_or_ends() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let tid = child.id() as i32;
        let mut threads = Threads::new(tid).unwrap();
        threads.observe().unwrap();
        assert_eq!(threads.single_thread(), Some(tid));
        // It sleeps before it is done with starting as well.
        while !(threads.none_ran()
            && threads.are_all_off_cpu(None) == Some(true)
            && threads.tids_on_cpu().is_empty())
        {
            std::thread::yield_now();
            threads.mark_read_except(&[]);
            threads.observe().unwrap();
        }
        threads.invalidate_all();
        assert!(!threads.none_ran());
        // As if another thread had been there instead.
        threads.by_tid.clear();
        threads.by_tid.insert(-1, OsThread::new(tid, -1, Visible::default()));
        threads.observe().unwrap();
        assert_eq!(threads.single_thread(), Some(tid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(threads.observe().is_err() || threads.single_thread().is_none());
    }
}
