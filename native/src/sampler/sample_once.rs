//! One sample of one process: which threads ran, their stacks and their states.

use crate::asyncio::task_counts::TaskReading;
use crate::asyncio::task_reader::TaskReader;
use crate::cpython::thread_names::ThreadNames;
use crate::linux::cpu_affinity;
use crate::linux::os::thread_cpu_ns;
use crate::linux::os_thread::OsThread;
use crate::linux::target::{LastCpu, Presence, Target};
use crate::linux::threads::Threads;
use crate::ptrace::gil_stop::{ConsistentReader, StopScope};
use crate::ptrace::ptrace_stop::{StopLimits, StopStats, Stopper};
use crate::sampler::counts::{Sample, State, ThreadLabel};
use crate::stacks::stack_interner::{StackId, StackInterner};
use crate::stacks::stack_reader::{Failure, StackReader, ThreadStack};
use crate::stacks::states::STATES;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// What is stopped while a process is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The thread that holds the GIL, so that no stack changes; of a free-threaded Python, each thread that runs while it
    /// is read itself. Stacks are consistent.
    Gil,
    /// Every thread. Stacks are consistent.
    Blocking,
    /// Nothing: cheaper, but most stacks of busy Python 3.11+ code never existed.
    Nonblocking,
}

/// How often a running target that is entering a call is read again.
const UNSTOPPED_TRIES: usize = 3;

/// Samples one process. To be used from a single OS thread, as ptrace demands.
pub struct ProcessSampler {
    pub target: Arc<Target>,
    mode: Mode,
    reader: Box<dyn StackReader>,
    threads: Threads,
    stopper: Stopper,
    last: LastSample,
    /// None unless thread names are requested.
    names: Option<ThreadNames>,
    /// None unless tasks are requested and can be read.
    pub tasks: Option<TaskReader>,
    /// The CPU on which the process last worked. A sampler that waits for the next tick there need not stop it.
    pub cpu: Option<usize>,
    last_cpu: LastCpu,
}

/// The samples of the last successful tick.
#[derive(Debug, Default)]
struct LastSample {
    samples: Vec<Sample>,
    /// The pthread_t of each sample's thread.
    threads: Vec<u64>,
    /// The kernel's id of each sample's thread, if known.
    tids: Vec<Option<i32>>,
    /// The generation of the interner.
    generation: u64,
    /// No tick has failed since.
    complete: bool,
}

impl ProcessSampler {
    /// # Errors
    /// If there is no such process.
    pub fn new(
        target: Arc<Target>,
        mode: Mode,
        reader: Box<dyn StackReader>,
        limits: StopLimits,
        names: Option<ThreadNames>,
    ) -> Result<ProcessSampler, Failure> {
        let mut threads = Threads::new(target.pid).map_err(|error| Failure::of_files(&error))?;
        threads.max_displacement = limits.max_stop / 2;
        let stopper = Stopper::new(target.pid, limits);
        Ok(ProcessSampler {
            target,
            mode,
            reader,
            threads,
            stopper,
            last: LastSample::default(),
            names,
            tasks: None,
            cpu: None,
            last_cpu: LastCpu::default(),
        })
    }

    /// Since then, on the monotonic clock, the sampling thread has been on its CPU: a thread that lost it then has one.
    pub fn set_stay_since(&mut self, monotonic_ns: u64) {
        self.threads.stay.since_ns = monotonic_ns;
    }

    /// The states that cannot be told apart here.
    pub fn missing_states(&self) -> Vec<&'static str> {
        let visible = self.threads.visible;
        let futexes = visible.system_calls && self.reader.has_gil_addresses();
        let has_gil = self.reader.has_gil();
        let told = [
            (State::Gil, has_gil),
            (State::CpuWait, visible.cpu_waits),
            (State::GilWait, futexes && has_gil),
            (State::Lock, futexes),
            (State::Poll, visible.system_calls),
            (State::Io, visible.system_calls),
            (State::Sleep, visible.system_calls),
        ];
        told.into_iter().filter(|(_, told)| !told).map(|(state, _)| STATES[state as usize]).collect()
    }

    /// Takes one sample of each Python thread.
    ///
    /// # Errors
    /// If there is nothing to count; `kind` is the kind of error.
    pub fn sample_once(&mut self, interner: &mut StackInterner) -> Result<(), Failure> {
        self.observe(interner)?;
        match self.threads.is_stopped() {
            true => Err(Failure::new("stopped", &"it stands in state T")),
            false => self.read_all(interner),
        }
    }

    /// The same, also of a process in state T: checks that its stacks can be read.
    ///
    /// # Errors
    /// If not.
    pub fn check_readable(&mut self, interner: &mut StackInterner) -> Result<(), Failure> {
        self.observe(interner)?;
        self.read_all(interner)
    }

    /// Reads the asyncio tasks. None if the process has none, or they cannot be read in this mode.
    ///
    /// # Errors
    /// If no consistent reading was had.
    pub fn read_tasks(&mut self, interner: &mut StackInterner) -> Option<Result<TaskReading, Failure>> {
        if self.mode == Mode::Nonblocking {
            return None;
        }
        let interpreter = self.tasks.as_mut()?.prepare()?;
        if let Err(failure) = self.observe(interner) {
            return Some(Err(failure));
        }
        let reader = self.tasks.as_mut()?;
        let (stopper, threads) = (&mut self.stopper, &mut self.threads);
        let read =
            ConsistentReader { reader: &mut *reader, threads, interner }.read_shared(interpreter, stopper);
        if !stopper.has_pending_stops() {
            self.threads.end_displacement();
        }
        self.threads.restore_priority();
        let missing = || Failure::new("read", &"no task was read");
        Some(read.and_then(|()| self.tasks.as_mut().and_then(TaskReader::take_reading).ok_or_else(missing)))
    }

    fn observe(&mut self, interner: &StackInterner) -> Result<(), Failure> {
        if self.last.generation != interner.generation() {
            self.last = LastSample { generation: interner.generation(), ..LastSample::default() };
            self.threads.invalidate_all();
        }
        if self.threads.observes_slowly() && self.stopper.has_runnable_pending_stops() {
            // Such a thread is detached as soon as it stops: nothing long is begun before.
            return Err(Failure::new("unstoppable", &"a thread has not stopped yet"));
        }
        let stopper = &mut self.stopper;
        let observed = self.threads.observe_and(&mut || stopper.release_pending_if_any());
        self.last.complete &= observed.is_ok();
        let relisted = observed.map_err(|error| Failure::of_files(&error))?;
        // They may be those of another process by now.
        if relisted && matches!(self.target.presence(), Presence::Exited | Presence::Replaced) {
            return Err(Failure::new("leaving", &"it is another program"));
        }
        Ok(())
    }

    fn read_all(&mut self, interner: &mut StackInterner) -> Result<(), Failure> {
        if self.last.complete && self.threads.none_ran() {
            if self.threads.began_cpu_wait {
                self.last.mark_cpu_waits(&self.threads);
            }
            return Ok(());
        }
        self.last.complete = false;
        let stacks = match self.mode {
            Mode::Gil if !self.reader.has_gil() => self.read(StopScope::EachThread, interner),
            Mode::Gil => self.read(StopScope::GilHolder, interner),
            Mode::Blocking => self.read(StopScope::AllThreads, interner),
            Mode::Nonblocking => self.read_unstopped(interner),
        };
        if !self.stopper.has_pending_stops() {
            // A thread that stops now would have to wait until this one has a CPU again.
            self.threads.end_displacement();
        }
        let stored = stacks.and_then(|stacks| {
            let stacks = self.merge_interpreters(stacks, interner);
            self.store(stacks, interner)
        });
        self.threads.restore_priority();
        stored
    }

    /// A thread that runs code in an interpreter is still in whichever called that, the older one: it has one
    /// stack, from the root in the older to the leaf in the newer.
    fn merge_interpreters(&self, stacks: Vec<ThreadStack>, interner: &mut StackInterner) -> Vec<ThreadStack> {
        let interpreter = |thread: &ThreadStack| thread.interpreter;
        if stacks.first().map(interpreter) == stacks.last().map(interpreter) {
            return stacks;
        }
        let mut found: Vec<ThreadStack> = Vec::with_capacity(stacks.len());
        let mut index_by_tid = HashMap::new();
        for inner in stacks {
            let named = self.reader.has_native_ids(inner.interpreter);
            let tid = self.threads.resolve(inner.native_id, inner.thread_id).filter(|_| named);
            let index = tid.map_or(found.len(), |tid| *index_by_tid.entry(tid).or_insert(found.len()));
            let Some(outer) = found.get_mut(index) else {
                found.push(inner);
                continue;
            };
            let (stack, cut) = interner.join(outer.stack, inner.stack, self.reader.max_depth());
            outer.stack = stack;
            outer.truncated |= inner.truncated || cut;
            outer.owns_gil |= inner.owns_gil;
            outer.active |= inner.active;
            outer.failed |= inner.failed;
        }
        found
    }

    /// The samples of the last successful tick.
    pub fn samples(&self) -> &[Sample] {
        &self.last.samples
    }

    /// The stops since the last call; call it at the end of a tick. A preempted thread that waits for the CPU of the
    /// tick counts as stopped since it was observed.
    pub fn take_stops(&mut self) -> StopStats {
        self.threads.stay.end_tick();
        let stops = std::mem::take(&mut self.stopper.stops);
        let napped_cpu_ns = self.stopper.napped_cpu_ns.take();
        if let Some(tid) = self.stopper.last_stopped_tid.take() {
            self.cpu = self.last_cpu.read(self.target.pid, tid).filter(|_| !self.threads.observes_slowly());
        }
        // A process that is stopped anyway is not observed.
        let observed_at = self.threads.observed_at.take();
        if stops.stops > 0 || self.mode == Mode::Nonblocking {
            return stops;
        }
        let (Some(observed_at), Some(tid)) = (observed_at, self.threads.preempted_thread()) else {
            return stops;
        };
        let here = cpu_affinity::current_cpu();
        if self.cpu != here {
            self.cpu = self.last_cpu.read(self.target.pid, tid);
        }
        if self.cpu != here {
            return stops;
        }
        // Only while the sampling thread is on that CPU is it the one that keeps the other from it.
        let observed_cpu_ns = self.threads.observed_cpu_ns;
        let napped_cpu_ns = napped_cpu_ns.filter(|&cpu_ns| cpu_ns >= observed_cpu_ns);
        let released_cpu_ns = napped_cpu_ns.or(self.threads.released_cpu_ns).unwrap_or_else(thread_cpu_ns);
        let cpu_ns = released_cpu_ns.saturating_sub(observed_cpu_ns);
        let stopped_ns = (observed_at.elapsed().as_nanos() as u64).min(cpu_ns);
        StopStats::one(stopped_ns, stopped_ns, self.stopper.limits.max_stop)
    }

    /// Whether threads that missed a stop still have to be detached.
    pub fn has_pending_stops(&self) -> bool {
        self.stopper.has_pending_stops()
    }

    /// Whether one of them may stop at any moment.
    pub fn has_runnable_pending_stops(&self) -> bool {
        self.stopper.has_runnable_pending_stops()
    }

    /// Detaches such threads once they have stopped.
    pub fn release_pending(&mut self) {
        self.stopper.release_pending();
    }

    /// The stopper, with threads that still have to be detached.
    pub fn into_stopper(self) -> Stopper {
        self.stopper
    }

    fn read(&mut self, scope: StopScope, interner: &mut StackInterner) -> Result<Vec<ThreadStack>, Failure> {
        let (reader, threads) = (&mut *self.reader, &mut self.threads);
        ConsistentReader { reader, threads, interner }.read(scope, &mut self.stopper)
    }

    fn read_unstopped(&mut self, interner: &mut StackInterner) -> Result<Vec<ThreadStack>, Failure> {
        let mut stacks = Vec::new();
        for interpreter in self.reader.interpreters()? {
            let mut read = || self.reader.read(interpreter, &mut |_| true, interner);
            let mut found = read();
            for _ in 0..UNSTOPPED_TRIES {
                if found.as_ref().is_err_and(|failure| failure.retry) {
                    found = read();
                }
            }
            self.reader.end_reading();
            stacks.append(&mut found?.threads);
        }
        Ok(stacks)
    }

    /// CPU time that reader processes used since the last call, in nanoseconds.
    pub fn take_cpu_ns(&mut self) -> u64 {
        self.reader.take_cpu_ns() + self.names.as_mut().map_or(0, ThreadNames::take_cpu_ns)
    }

    fn store(&mut self, stacks: Vec<ThreadStack>, interner: &mut StackInterner) -> Result<(), Failure> {
        let threads: Vec<u64> = stacks.iter().map(|thread| thread.thread_id).collect();
        self.names.iter_mut().try_for_each(|names| names.update(&threads))?;
        let generation = self.last.generation;
        let tids: Vec<Option<i32>> =
            stacks.iter().map(|thread| self.threads.resolve(thread.native_id, thread.thread_id)).collect();
        let gils = self.reader.has_gil_addresses().then(|| self.reader.gil_addresses());
        let samples = stacks
            .into_iter()
            .zip(&tids)
            .map(|(thread, tid)| self.sample(thread, *tid, gils.as_deref(), interner))
            .collect();
        self.last = LastSample { samples, threads, tids, generation, complete: true };
        Ok(())
    }

    fn sample(
        &self,
        thread: ThreadStack,
        tid: Option<i32>,
        gils: Option<&[Range<usize>]>,
        interner: &mut StackInterner,
    ) -> Sample {
        let name = self.names.as_ref().and_then(|names| names.get(thread.thread_id));
        let counted = self.names.as_ref().is_some_and(|names| names.used_for_counts);
        let label = match name.clone().filter(|_| counted) {
            Some(name) => ThreadLabel::Named(name),
            _ if tid == Some(self.target.pid) => ThreadLabel::Main,
            _ => ThreadLabel::Other,
        };
        let known = tid.and_then(|tid| self.threads.get(tid));
        let waits_for_cpu = known.is_some_and(OsThread::waits_for_cpu);
        let wait = State::of_wait(known.and_then(OsThread::wait), gils);
        let busy = known.and_then(OsThread::busy);
        let state = State::decide(thread.owns_gil, waits_for_cpu, wait, busy, thread.active);
        let stack = if thread.failed {
            interner.unread_stack(self.last.stack(thread.thread_id))
        } else {
            thread.stack
        };
        Sample { label, name, stack, state, truncated: thread.truncated && !thread.failed }
    }
}

impl LastSample {
    /// No thread has run since, and some of them have waited for a CPU all the time.
    fn mark_cpu_waits(&mut self, threads: &Threads) {
        for (sample, tid) in self.samples.iter_mut().zip(&self.tids) {
            if tid.and_then(|tid| threads.get(tid)).is_some_and(OsThread::waits_for_cpu) {
                sample.state = State::CpuWait;
            }
        }
    }

    fn stack(&self, thread_id: u64) -> Option<StackId> {
        let at = self.threads.iter().position(|&id| id == thread_id)?;
        Some(self.samples.get(at)?.stack)
    }
}
