//! One look at one process: who ran, what everybody's stack is, how it counts.

use crate::cpython::thread_names::Names;
use crate::linux::cpu_affinity;
use crate::linux::target::{cpu_of, Presence, Target};
use crate::linux::threads::Threads;
use crate::ptrace::gil_stop::{Reading, Stillness};
use crate::ptrace::ptrace_stop::{Limits, Stopper, Stops};
use crate::sampler::counts::{Sample, State, Who};
use crate::stacks::stack_interner::{Book, StackId};
use crate::stacks::stack_reader::{Failure, StackReader, ThreadStack};
use std::collections::HashMap;
use std::sync::Arc;

/// What stands still while it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The thread that holds the GIL, which keeps all stacks as they are. They are true.
    Gil,
    /// Every thread. The stacks are true.
    Blocking,
    /// Nothing: cheaper, but most stacks of busy Python 3.11+ code never existed.
    Nonblocking,
}

/// A moving target is found entering a call now and then.
const TRIES_MOVING: usize = 3;

/// Samples one process. To be used from a single OS thread, as ptrace demands.
pub struct Ticker {
    pub target: Arc<Target>,
    mode: Mode,
    reader: Box<dyn StackReader>,
    threads: Threads,
    stopper: Stopper,
    last: Last,
    /// Where the names of threads are asked for.
    names: Option<Names>,
    /// The CPU on which the process was last found at work: who waits for the next tick there need not stop it.
    pub cpu: Option<usize>,
}

/// What the last tick that succeeded saw.
#[derive(Debug, Default)]
struct Last {
    samples: Vec<Sample>,
    /// The pthread_t of each sample's thread.
    threads: Vec<u64>,
    /// The book's generation.
    generation: u64,
    /// No tick has failed since.
    whole: bool,
}

impl Ticker {
    /// # Errors
    /// If there is no such process.
    pub fn new(
        target: Arc<Target>,
        mode: Mode,
        reader: Box<dyn StackReader>,
        limits: Limits,
        names: Option<Names>,
    ) -> Result<Ticker, Failure> {
        let threads = Threads::of(target.pid).map_err(|error| Failure::new("leaving", &error))?;
        let stopper = Stopper::within(target.pid, limits);
        Ok(Ticker { target, mode, reader, threads, stopper, last: Last::default(), names, cpu: None })
    }

    /// Looks at each Python thread.
    ///
    /// # Errors
    /// If there is nothing to be counted; the kind says under which word it is.
    pub fn tick(&mut self, book: &mut Book) -> Result<(), Failure> {
        self.look(book)?;
        match self.threads.stopped() {
            true => Err(Failure::new("stopped", &"it stands in state T")),
            false => self.read_all(book),
        }
    }

    /// The same, also of a process that stands in state T: is there anything to be read?
    ///
    /// # Errors
    /// If not.
    pub fn prove(&mut self, book: &mut Book) -> Result<(), Failure> {
        self.look(book)?;
        self.read_all(book)
    }

    fn look(&mut self, book: &Book) -> Result<(), Failure> {
        if self.last.generation != book.generation() {
            self.last = Last { generation: book.generation(), ..Last::default() };
            self.threads.forget_all();
        }
        let anew = self.threads.look().map_err(|error| Failure::new("leaving", &error))?;
        // They may be those of another process by now.
        if anew && matches!(self.target.presence(), Presence::Exited | Presence::Replaced) {
            return Err(Failure::new("leaving", &"it is another program"));
        }
        Ok(())
    }

    fn read_all(&mut self, book: &mut Book) -> Result<(), Failure> {
        if self.last.whole && self.threads.none_ran() {
            return Ok(());
        }
        self.last.whole = false;
        let stacks = match self.mode {
            Mode::Gil => self.read(Stillness::OfTheGil, book),
            Mode::Blocking => self.read(Stillness::OfAll, book),
            Mode::Nonblocking => self.read_moving(book),
        }?;
        let stacks = self.one_a_thread(stacks, book);
        self.remember(stacks, book);
        Ok(())
    }

    /// A thread that runs code in an interpreter is still in whichever called that, the older one: it has one
    /// stack, from the root in the older to the leaf in the newer.
    fn one_a_thread(&self, stacks: Vec<ThreadStack>, book: &mut Book) -> Vec<ThreadStack> {
        let interpreter = |thread: &ThreadStack| thread.interpreter;
        if stacks.first().map(interpreter) == stacks.last().map(interpreter) {
            return stacks;
        }
        let mut found: Vec<ThreadStack> = Vec::with_capacity(stacks.len());
        let mut places = HashMap::new();
        for inner in stacks {
            let named = self.reader.names_threads(inner.interpreter);
            let tid = self.threads.find(inner.native_id, inner.thread_id).filter(|_| named);
            let place = tid.map_or(found.len(), |tid| *places.entry(tid).or_insert(found.len()));
            let Some(outer) = found.get_mut(place) else {
                found.push(inner);
                continue;
            };
            let (stack, cut) = book.joined(outer.stack, inner.stack, self.reader.max_depth());
            outer.stack = stack;
            outer.truncated |= inner.truncated || cut;
            outer.owns_gil |= inner.owns_gil;
            outer.active |= inner.active;
            outer.failed |= inner.failed;
        }
        found
    }

    /// What the last tick that succeeded saw.
    pub fn samples(&self) -> &[Sample] {
        &self.last.samples
    }

    /// How the target stood still since this was asked last; to be asked at the end of a tick. A thread that wants the
    /// CPU that the tick had has stood still since it was looked at.
    pub fn take_stops(&mut self) -> Stops {
        let stops = std::mem::take(&mut self.stopper.stops);
        if let Some(tid) = self.stopper.last_held.take() {
            self.cpu = cpu_of(self.target.pid, tid);
        }
        // A process that stands anyway is not looked at.
        let looked = self.threads.looked.take();
        if stops.stops > 0 || self.mode == Mode::Nonblocking {
            return stops;
        }
        let (Some(looked), Some(tid)) = (looked, self.threads.pushed_aside()) else { return stops };
        let here = cpu_affinity::cpu();
        if self.cpu != here {
            self.cpu = cpu_of(self.target.pid, tid);
        }
        if self.cpu != here {
            return stops;
        }
        let stopped_ns = looked.elapsed().as_nanos() as u64;
        Stops { stops: 1, stopped_ns, longest_ns: stopped_ns }
    }

    /// Whether threads that missed a stop still have to be let go.
    pub fn is_unsettled(&self) -> bool {
        self.stopper.is_unsettled()
    }

    /// Lets go of such threads as soon as they stop.
    pub fn settle(&mut self) {
        self.stopper.settle();
    }

    /// The rest: threads that still have to be let go.
    pub fn into_stopper(self) -> Stopper {
        self.stopper
    }

    fn read(&mut self, stillness: Stillness, book: &mut Book) -> Result<Vec<ThreadStack>, Failure> {
        let (reader, threads) = (&mut *self.reader, &mut self.threads);
        Reading { reader, threads, book }.read(stillness, &mut self.stopper)
    }

    fn read_moving(&mut self, book: &mut Book) -> Result<Vec<ThreadStack>, Failure> {
        let mut stacks = Vec::new();
        for interpreter in self.reader.interpreters()? {
            let mut read = || self.reader.read(interpreter, &mut |_| true, book);
            let mut found = read();
            for _ in 0..TRIES_MOVING {
                if found.as_ref().is_err_and(|failure| failure.again) {
                    found = read();
                }
            }
            stacks.append(&mut found?.threads);
        }
        Ok(stacks)
    }

    fn remember(&mut self, stacks: Vec<ThreadStack>, book: &mut Book) {
        let threads: Vec<u64> = stacks.iter().map(|thread| thread.thread_id).collect();
        self.names.iter_mut().for_each(|names| names.learn(&threads));
        let generation = self.last.generation;
        let samples = stacks.into_iter().map(|thread| self.sample(thread, book)).collect();
        self.last = Last { samples, threads, generation, whole: true };
    }

    fn sample(&self, thread: ThreadStack, book: &mut Book) -> Sample {
        let tid = self.threads.find(thread.native_id, thread.thread_id);
        let name = self.names.as_ref().and_then(|names| names.get(thread.thread_id));
        let counted = self.names.as_ref().is_some_and(|names| names.counted);
        let who = match name.clone().filter(|_| counted) {
            Some(name) => Who::Named(name),
            _ if tid == Some(self.target.pid) => Who::Main,
            _ => Who::Other,
        };
        let busy = tid.and_then(|tid| self.threads.busy(tid));
        let state = State::decide(thread.owns_gil, busy, thread.active);
        let stack = if thread.failed { book.unread(self.last.stack(thread.thread_id)) } else { thread.stack };
        Sample { who, name, stack, state, truncated: thread.truncated && !thread.failed }
    }
}

impl Last {
    fn stack(&self, thread_id: u64) -> Option<StackId> {
        let at = self.threads.iter().position(|&known| known == thread_id)?;
        Some(self.samples.get(at)?.stack)
    }
}
