//! The reader of CPython 3.7 to 3.15: few and small reads of memory.
//!
//! It first reads all thread states of an interpreter (`thread_states`), then the frames of each thread that has
//! run since the last reading (`frames`, up to 3.10 `frame_objects`), then what may have changed of their code
//! objects (`code_objects`). Where nothing is new it allocates only the result.

use crate::cpython::call_entry::CallEntry;
use crate::cpython::code_objects::{CodeObjects, CodePosition};
use crate::cpython::cpython_layout::Layout;
use crate::cpython::frames::WalkError;
use crate::cpython::native_ids::{self, NativeIds};
use crate::cpython::runtime::{waits_inside_gil, Runtime};
use crate::cpython::stack_walker::StackWalker;
use crate::cpython::thread_states::{Expected, InterpreterHead, ThreadStates, MAX_THREADS};
use crate::linux::bounded_memory::BoundedMemory;
use crate::linux::memory::{Fault, Memory, RemoteMemory, Span};
use crate::reader_process::client::ReaderProcesses;
use crate::stacks::stack_interner::{FrameId, StackId, StackInterner};
use crate::stacks::stack_reader::{
    Failure, GilState, MemoryReading, StackReader, Stacks, ThreadStack, Verify,
};
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::time::{Duration, Instant};

/// The longest that a tick may take, however many threads and frames there are: other processes wait for it.
const MAX_TICK: Duration = Duration::from_millis(if cfg!(test) { 60_000 } else { 250 });
/// The same for the first reading, in the thread that attaches.
const MAX_WARM_UP: Duration = Duration::from_secs(2);
/// Frames outside data stacks that are remembered from one tick to the next, of all threads of an interpreter.
const MAX_ALL_REMEMBERED: usize = 65_536;
/// The share of the time of a reading after which no more threads are walked.
const WALK_SHARE: f64 = 0.75;
/// A longer buffer of positions is not kept.
const MAX_KEPT_POSITIONS: usize = 16_384;

/// The reader of one process.
#[derive(Debug)]
pub struct CpythonReader<M> {
    memory: M,
    python: String,
    layout: Layout,
    max_depth: usize,
    waits_inside_gil: bool,
    /// The oldest first.
    interpreter_list: Vec<usize>,
    interpreters: FxHashMap<usize, Interpreter>,
    states: ThreadStates,
    walker: StackWalker,
    codes: CodeObjects,
    native_ids: NativeIds,
    /// A reading of all leaves out these threads, while they are attached.
    left_out: Vec<i32>,
    /// The time at which a reading is abandoned.
    deadline: Option<Instant>,
    /// When the current tick has to end, which reads one interpreter after another.
    tick_end: Instant,
    call_entry: CallEntry,
    /// The generation of the interner to which the last stacks belong.
    generation: u64,
    // Buffers that are reused.
    positions: Vec<CodePosition>,
    frames: Vec<FrameId>,
}

/// The cached state of an interpreter from the last reading.
#[derive(Debug, Default)]
struct Interpreter {
    /// In the order of its list.
    threads: Vec<Thread>,
    expected: Expected,
    /// As of the last reading.
    head: InterpreterHead,
    /// The thread at which walking begins: the last reading had no time for it.
    first_walked: usize,
}

#[derive(Debug, Default)]
struct Thread {
    /// Of its PyThreadState.
    address: usize,
    thread_id: u64,
    /// Another thread whose state is at this address has another (`cpython_layout::Thread::identity`).
    identity: usize,
    native_id: Option<i32>,
    /// It may run Python code (`Layout::is_attached`).
    attached: bool,
    /// Where its frames are that are not on its data stack.
    off_stack_frames: Vec<Span>,
    /// Its last good stack, and whether that was cut.
    last_stack: Option<(StackId, bool)>,
    /// The reading after that one failed.
    failed: bool,
    reading: ThreadReading,
}

/// What became of the walk of a thread's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walk {
    Done,
    /// It has not run.
    Skipped,
    /// There was not enough time for it.
    Late,
}

/// What a reading found for a thread.
#[derive(Clone, Debug, Default)]
enum ThreadReading {
    #[default]
    Failed,
    /// There was no time to look at it.
    Unvisited,
    /// It has not run: its stack is the last one.
    Unchanged,
    /// Its frames are this part of `positions`.
    Frames(Range<usize>),
}

impl CpythonReader<RemoteMemory> {
    /// Finds the Python of a process. Stacks are cut at `max_depth` frames.
    pub fn attach(pid: i32, processes: Option<&ReaderProcesses>, max_depth: usize) -> Result<Self, Failure> {
        let memory = RemoteMemory::new(pid);
        let Runtime { mut python, layout } = Runtime::find(pid, &memory, processes)?;
        if !layout.has_gil() {
            python.push('t');
        }
        let waits_inside_gil = waits_inside_gil(pid, &memory);
        let mut reader = CpythonReader::new(memory, pid, &layout, max_depth);
        (reader.python, reader.waits_inside_gil) = (python, waits_inside_gil || !layout.has_gil());
        reader.warm_up();
        reader.find_native_ids(pid)?;
        Ok(reader)
    }

    /// Checks that the threads of the process can be told apart.
    fn find_native_ids(&mut self, pid: i32) -> Result<(), Failure> {
        if !self.native_ids.are_behind_pthreads() {
            return Ok(());
        }
        let threads = self.interpreters.values().flat_map(|interpreter| &interpreter.threads);
        let pthreads: Vec<usize> = threads.map(|thread| thread.thread_id as usize).collect();
        let found = self.native_ids.find(pid, &self.memory, &pthreads);
        match found.map_err(|error| Failure::of_files(&error))? {
            true => Ok(()),
            false if pthreads.is_empty() => Err(Failure::new("read", &"its threads cannot be read")),
            false => Err(Failure::new("other", &"its C library does not tell the ids of its threads")),
        }
    }

    /// The target's Python, like "3.11.7", or "3.13.15t" if it is free-threaded.
    pub fn python(&self) -> String {
        self.python.clone()
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }
}

impl<M: Memory> CpythonReader<M> {
    pub fn new(memory: M, pid: i32, layout: &Layout, max_depth: usize) -> CpythonReader<M> {
        CpythonReader {
            memory,
            python: String::new(),
            layout: *layout,
            max_depth,
            waits_inside_gil: true,
            interpreter_list: Vec::new(),
            interpreters: FxHashMap::default(),
            states: ThreadStates::new(layout),
            walker: StackWalker::new(layout),
            codes: CodeObjects::new(pid, layout),
            native_ids: NativeIds::new(layout),
            left_out: Vec::new(),
            deadline: None,
            tick_end: Instant::now() + MAX_TICK,
            call_entry: CallEntry::default(),
            generation: 0,
            positions: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// Caches most code objects before the first stop. Entries that are wrong because the process ran meanwhile are
    /// detected at the first real reading.
    fn warm_up(&mut self) {
        self.interpreter_list = self.layout.interpreters(&self.memory).unwrap_or_default();
        self.tick_end = Instant::now() + MAX_WARM_UP;
        for address in self.interpreter_list.clone() {
            let mut interpreter = Interpreter::default();
            let _ = self.read_positions(address, &mut interpreter, &mut |_| true);
            // Where its frames are. No thread has a stack yet, so that all are read again.
            self.interpreters.insert(address, interpreter);
        }
        self.shrink_buffers();
        self.call_entry.reset();
        self.interpreter_list.clear();
    }

    fn shrink_buffers(&mut self) {
        self.walker.shrink();
        self.states.shrink();
        self.codes.shrink();
        if self.positions.len() > MAX_KEPT_POSITIONS {
            self.positions = Vec::new();
        }
    }

    /// Reads the frame positions of all threads of an interpreter.
    fn read_positions(
        &mut self,
        address: usize,
        interpreter: &mut Interpreter,
        ran: &mut dyn FnMut(i32) -> bool,
    ) -> Result<(), Failure> {
        if Instant::now() >= self.tick_end {
            return Err(slow());
        }
        let deadline = self.deadline.map_or(self.tick_end, |deadline| deadline.min(self.tick_end));
        let memory = BoundedMemory::new(&self.memory, Some(deadline));
        let previous = interpreter.threads.iter().map(|thread| thread.address);
        let expected = &mut interpreter.expected;
        let interpreters = (address, &*self.interpreter_list);
        let read = self.states.read(&self.layout, &memory, interpreters, expected, previous);
        let head = match read {
            Ok(Some(head)) => head,
            _ if memory.has_expired() => return Err(slow()),
            Err(fault) => return Err(fault.into()),
            Ok(None) => {
                self.interpreter_list.clear();
                return Err(Failure::new("moved", &"an interpreter was made or ended"));
            }
        };
        interpreter.head = head;
        interpreter.reorder(&self.states);
        for (thread, (_, state)) in interpreter.threads.iter_mut().zip(self.states.iter()) {
            thread.identify(&self.layout, state);
        }
        if self.native_ids.are_behind_pthreads() {
            interpreter.read_native_ids(&self.native_ids, &memory);
        }
        self.positions.clear();
        // The rest of the time is for code objects.
        let now = Instant::now();
        let walk_deadline = now + deadline.saturating_duration_since(now).mul_f64(WALK_SHARE);
        let mut walk = |thread: &mut Thread, state: &[u8], is_first: bool| {
            if thread.is_unchanged(ran) {
                thread.reading = ThreadReading::Unchanged;
                return Ok(Walk::Skipped);
            }
            if thread.attached && thread.native_id.is_some_and(|id| self.left_out.contains(&id)) {
                return Ok(Walk::Skipped);
            }
            let holds = thread.address == head.holder;
            let began = self.positions.len();
            let mut walk = |check_call_entry| {
                self.positions.truncate(began);
                self.walker.walk(
                    &memory,
                    state,
                    check_call_entry,
                    Some(walk_deadline),
                    &mut thread.off_stack_frames,
                    &mut self.positions,
                )
            };
            let mut walked = walk(holds);
            if walked == Err(WalkError::CallEntry) && self.call_entry.is_persistent() {
                walked = walk(false);
            } else if holds && walked.is_ok() {
                self.call_entry.reset();
            }
            let late = walked == Err(WalkError::Timeout) || memory.has_expired();
            match walked {
                Ok(()) => {
                    cut_middle(&mut self.positions, began, self.max_depth);
                    thread.reading = ThreadReading::Frames(began..self.positions.len());
                    Ok(Walk::Done)
                }
                Err(WalkError::CallEntry) => {
                    self.call_entry.record(self.walker.fingerprint());
                    Err(Failure::transient("read", &"a call was being entered"))
                }
                Err(_) if late && is_first => Err(slow()),
                // It is counted as a thread that could not be read.
                Err(_) => {
                    self.positions.truncate(began);
                    thread.reading = ThreadReading::Failed;
                    Ok(if late { Walk::Late } else { Walk::Done })
                }
            }
        };
        // The thread that holds the GIL first: there may not be time for all.
        let holder = interpreter.threads.iter().position(|thread| thread.address == head.holder);
        let mut is_first = true;
        if let Some((thread, state)) =
            holder.and_then(|n| interpreter.threads.get_mut(n).zip(self.states.get(n)))
        {
            is_first = walk(thread, state, true)? == Walk::Skipped;
        }
        let (count, began) = (interpreter.threads.len(), interpreter.first_walked);
        interpreter.first_walked = 0;
        let mut others = 0;
        for n in (began.min(count)..count).chain(0..began.min(count)).filter(|&n| holder != Some(n)) {
            // A look at a thread takes a part of a microsecond, and there may be thousands.
            let now = Instant::now();
            if now >= if is_first { deadline } else { walk_deadline } {
                interpreter.first_walked = n;
                if is_first {
                    return Err(slow());
                }
                break;
            }
            let Some((thread, state)) = interpreter.threads.get_mut(n).zip(self.states.get(n)) else { break };
            // A thread that is too deep for what is left of the time comes first next time, and then last.
            interpreter.first_walked = if others == 0 { n + 1 } else { n };
            let walked = walk(thread, state, is_first)?;
            if walked == Walk::Late {
                break;
            }
            interpreter.first_walked = 0;
            is_first &= walked == Walk::Skipped;
            others += usize::from(walked == Walk::Done);
        }
        let refreshed = self.codes.refresh(&memory, &self.positions, head.freed, Some(deadline));
        match refreshed && !memory.has_expired() {
            true => Ok(()),
            false => Err(slow()),
        }
    }

    fn gil_of(&self, head: InterpreterHead) -> GilState {
        let native_id = match self.native_ids.are_behind_pthreads() {
            true if head.holder == 0 => None,
            true => self.native_ids.read(&self.memory, head.kernel_thread),
            false => native_ids::parse(head.kernel_thread),
        };
        GilState { holder: head.holder, native_id, switches: head.switches }
    }

    fn stack_of(
        &mut self,
        positions: Range<usize>,
        interner: &mut StackInterner,
    ) -> Result<(StackId, bool), Fault> {
        self.frames.clear();
        for &position in &self.positions[positions] {
            self.frames.extend(self.codes.frame(position, interner)?);
        }
        Ok(interner.intern_stack(&self.frames, self.max_depth))
    }
}

impl<M: Memory + Send> StackReader for CpythonReader<M> {
    fn interpreters(&mut self) -> Result<Vec<usize>, Failure> {
        self.tick_end = Instant::now() + MAX_TICK;
        self.walker.prepare();
        // Every reading checks that these still are all interpreters.
        if self.interpreter_list.is_empty() {
            self.interpreter_list = self.layout.interpreters(&self.memory)?;
            self.interpreters.retain(|address, _| self.interpreter_list.contains(address));
        }
        Ok(self.interpreter_list.clone())
    }

    fn max_depth(&self) -> usize {
        self.max_depth
    }

    fn has_native_ids(&self, interpreter: usize) -> bool {
        self.layout.thread.is_bound || self.interpreter_list.first().is_none_or(|&main| main == interpreter)
    }

    fn gil(&mut self, interpreter: usize) -> Result<GilState, Failure> {
        let expected = &mut self.interpreters.entry(interpreter).or_default().expected;
        let head = InterpreterHead::read(&self.layout, &self.memory, interpreter, expected)?;
        Ok(self.gil_of(head))
    }

    fn has_gil(&self) -> bool {
        self.layout.has_gil()
    }

    fn leave_out(&mut self, native_ids: Vec<i32>) {
        self.left_out = native_ids;
    }

    fn read_thread(
        &mut self,
        interpreter: usize,
        thread_id: u64,
        interner: &mut StackInterner,
        release: &mut dyn FnMut(),
    ) -> Result<ThreadStack, Failure> {
        self.read_one(interpreter, thread_id, interner, release)
    }

    fn has_gil_addresses(&self) -> bool {
        self.waits_inside_gil
    }

    fn gil_addresses(&self) -> Vec<Range<usize>> {
        let interpreters = self.interpreters.values().filter(|_| self.waits_inside_gil);
        interpreters.map(|interpreter| interpreter.expected.gil_locks(&self.layout)).collect()
    }

    fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    fn end_reading(&mut self) {
        self.deadline = None;
        self.shrink_buffers();
    }

    fn read_and_verify(
        &mut self,
        interpreter: usize,
        ran: &mut dyn FnMut(i32) -> bool,
        interner: &mut StackInterner,
        verify: &mut Verify<'_>,
    ) -> Result<Stacks, Failure> {
        if self.generation != interner.generation() {
            self.generation = interner.generation();
            let threads = self.interpreters.values_mut().flat_map(|interpreter| &mut interpreter.threads);
            threads.for_each(|thread| thread.last_stack = None);
        }
        let mut cached = self.interpreters.remove(&interpreter).unwrap_or_default();
        let outcome = self.read_positions(interpreter, &mut cached, ran).and_then(|()| {
            let gil = self.gil_of(cached.head);
            let (threads, expected) = (&cached.threads, &mut cached.expected);
            let mut threads = threads.iter().filter(|thread| thread.was_read()).map(Thread::ids);
            let mut gil_now = || {
                let head = InterpreterHead::read(&self.layout, &self.memory, interpreter, expected)?;
                Ok(self.gil_of(head))
            };
            let verified = verify(MemoryReading { gil, threads: &mut threads, gil_now: &mut gil_now })?;
            Ok((gil, verified))
        });
        let outcome = outcome.and_then(|(gil, verified)| {
            let deadline = self.deadline.filter(|_| !verified);
            let mut stacks = Vec::with_capacity(cached.threads.len());
            let mut remembered = 0;
            for thread in &mut cached.threads {
                if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    return Err(slow());
                }
                thread.visit(ran, &mut remembered);
                let stack = match thread.reading.clone() {
                    ThreadReading::Failed | ThreadReading::Unvisited => None,
                    ThreadReading::Unchanged => thread.last_stack,
                    ThreadReading::Frames(positions) => self.stack_of(positions, interner).ok(),
                };
                thread.failed = stack.is_none();
                let before = thread.last_stack.map(|(stack, _)| stack);
                thread.last_stack = stack.or(thread.last_stack);
                let (id, truncated) = stack.unwrap_or_else(|| (interner.unread_stack(before), false));
                stacks.push(ThreadStack {
                    thread_id: thread.thread_id,
                    native_id: thread.native_id,
                    interpreter,
                    owns_gil: thread.address == cached.head.holder,
                    active: thread.attached,
                    stack: id,
                    truncated,
                    failed: stack.is_none(),
                });
            }
            Ok(Stacks { threads: stacks, gil })
        });
        let others = self.interpreters.values().map(|interpreter| interpreter.threads.len()).sum::<usize>();
        if others + cached.threads.len() > MAX_THREADS {
            self.interpreters.clear();
            return Err(Failure::new("other", &"it has too many threads"));
        }
        self.interpreters.insert(interpreter, cached);
        outcome
    }
}

/// Drops frames of a deep stack that will be cut anyway. Some frames are not shown, hence more than `max_depth`.
fn cut_middle(positions: &mut Vec<CodePosition>, began: usize, max_depth: usize) {
    let kept = max_depth.saturating_mul(2);
    let (first, last) = (began.saturating_add(kept), positions.len().saturating_sub(kept));
    if first < last {
        positions.drain(first..last);
    }
}

fn slow() -> Failure {
    Failure::new("slow", &"the stacks could not be read while threads may be stopped (max-stop-ms)")
}

mod cached_threads;
mod one_thread;
#[cfg(test)]
mod tests;
