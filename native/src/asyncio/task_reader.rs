//! The asyncio tasks of a process, read from outside.
//!
//! To `gil_stop` this is a reader like that of stacks, so a reading is proved consistent in the same way: nothing of
//! the interpreter ran from its beginning to its end. A reading that could not be is a failure.
//!
//! Of more than `max_tasks` tasks a random subset is read. Each of them has the same chance, so each stands for as
//! many tasks as there are for one that was read. The running task of a loop is always read and stands for itself.

use crate::asyncio::await_chain::{follow, AwaitChain};
use crate::asyncio::loop_lag::{LoopLag, ReadyQueue};
use crate::asyncio::objects::{read_each, Kind, Objects};
use crate::asyncio::task_counts::{TaskReading, TaskState};
use crate::asyncio::task_layout::{TaskLayout, LOOP, PENDING, REFERENT, STATE_MASK};
use crate::asyncio::task_lists::follow_rings;
use crate::asyncio::task_sources::TaskSources;
use crate::cpython::by_address::ByAddress;
use crate::cpython::code_objects::{CodeObjects, CodePosition};
use crate::cpython::cpython_layout::{Layout, TYPE};
use crate::cpython::native_ids;
use crate::cpython::thread_states::{Expected, InterpreterHead, ThreadStates};
use crate::linux::bounded_memory::BoundedMemory;
use crate::linux::memory::{word, Fault, Memory, RemoteMemory, Span};
use crate::linux::os::monotonic_ns;
use crate::stacks::frame_text::Call;
use crate::stacks::stack_interner::{StackId, StackInterner};
use crate::stacks::stack_reader::{
    Failure, GilState, MemoryReading, StackReader, Stacks, ThreadStack, Verify,
};
use std::time::{Duration, Instant};

/// The longest that a reading may take: other processes wait for it.
const MAX_READING: Duration = Duration::from_millis(50);
/// How often a process without asyncio is searched for it.
const SEARCH_NS: u64 = 2_000_000_000;
/// Of a deque: its length and how often its ends moved.
const DEQUE_LENGTH: usize = 16;
const DEQUE_MOVES: usize = 56;
/// As much of a loop in C as is searched for its queue.
const MAX_LOOP: usize = 512;
const MAX_LOOPS: usize = 256;
const WORD: usize = size_of::<usize>();

/// Reads the tasks of one process.
#[derive(Debug)]
pub struct TaskReader {
    memory: RemoteMemory,
    objects: Objects,
    codes: CodeObjects,
    states: ThreadStates,
    max_tasks: usize,
    max_depth: usize,
    interpreter: usize,
    expected: Expected,
    previous: Vec<usize>,
    sources: Option<TaskSources>,
    search_ns: u64,
    /// The queue of each loop; 0 if it has none.
    queues: ByAddress<usize>,
    lag: LoopLag,
    /// Nodes of lists of tasks, as of the last reading.
    nodes: Vec<usize>,
    deadline: Option<Instant>,
    seed: u64,
    /// The first reading of an attempt, and what became of it.
    listing: Option<Listing>,
    reading: Option<TaskReading>,
}

/// All that a reading found in memory.
#[derive(Clone, Debug, Default, PartialEq)]
struct Listing {
    tasks: Vec<Task>,
    queues: Vec<ReadyQueue>,
    loops: usize,
}

#[derive(Clone, Debug, PartialEq)]
struct Task {
    address: usize,
    state: TaskState,
    weight: f64,
    chain: AwaitChain,
    /// The name of the task that it waits for; empty if that has none of its own.
    task_name: Option<String>,
}

/// The fields of a task.
#[derive(Clone, Copy, Debug, Default)]
struct Fields {
    address: usize,
    event_loop: usize,
    waiter: usize,
    coroutine: usize,
    weight: f64,
    running: bool,
}

impl TaskReader {
    /// None if tasks of this Python cannot be read.
    pub fn new(
        pid: i32,
        layout: &Layout,
        python: &str,
        max_depth: usize,
        max_tasks: usize,
    ) -> Option<TaskReader> {
        let minor = python.strip_prefix("3.")?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
        let at = TaskLayout::of(minor)?;
        Some(TaskReader {
            memory: RemoteMemory::new(pid),
            objects: Objects::new(layout, at),
            codes: CodeObjects::new(pid, layout),
            states: ThreadStates::new(layout),
            max_tasks,
            max_depth,
            interpreter: 0,
            expected: Expected::default(),
            previous: Vec::new(),
            sources: None,
            search_ns: 0,
            queues: ByAddress::default(),
            lag: LoopLag::default(),
            nodes: Vec::new(),
            deadline: None,
            seed: 0,
            listing: None,
            reading: None,
        })
    }

    /// Looks for asyncio before anything is stopped; the address of the interpreter if it has it.
    pub fn prepare(&mut self) -> Option<usize> {
        (self.listing, self.reading, self.seed) = (None, None, fastrand::u64(..));
        if self.sources.is_none() && monotonic_ns() >= self.search_ns {
            self.search_ns = monotonic_ns() + SEARCH_NS;
            let memory = BoundedMemory::new(&self.memory, Some(Instant::now() + MAX_READING));
            self.interpreter = self.objects.layout.interpreters(&memory).ok()?.first().copied().unwrap_or(0);
            self.sources = TaskSources::find(&mut self.objects, &memory, self.interpreter).ok()?;
        }
        self.objects.shrink();
        if self.queues.len() > MAX_LOOPS {
            self.queues.clear();
        }
        self.sources.as_ref().map(|_| self.interpreter)
    }

    /// What the last reading found. To be called once that is known to be consistent.
    pub fn take_reading(&mut self) -> Option<TaskReading> {
        self.reading.take()
    }

    fn gil_of(head: InterpreterHead) -> GilState {
        let native_id = native_ids::parse(head.kernel_thread);
        GilState { holder: head.holder, native_id, switches: head.switches }
    }

    /// Reads the tasks themselves.
    fn list(&mut self, memory: &dyn Memory) -> Result<Listing, Fault> {
        let objects = &mut self.objects;
        let Some(sources) = &self.sources else { return Ok(Listing::default()) };
        let mut members = Vec::new();
        for &(set, weak) in &sources.sets {
            if objects.kind_of(memory, set)? != Kind::Set {
                return Err(Fault { address: set });
            }
            members.extend(objects.set(memory, set)?.into_iter().map(|member| (member, weak)));
        }
        let mut running: Vec<usize> = match sources.current {
            0 => Vec::new(),
            current => objects.dict(memory, current)?.into_iter().map(|(_, task)| task).collect(),
        };
        if let Some(lists) = objects.at.lists {
            let threads: Vec<usize> = self.states.iter().map(|(address, _)| address).collect();
            let current: Vec<usize> = threads.iter().map(|thread| thread + lists.running).collect();
            let mut bytes = Vec::new();
            read_each(memory, &current, WORD, &mut bytes);
            running.extend(bytes.chunks_exact(WORD).map(|bytes| word(bytes, 0)).filter(|&task| task != 0));
            let heads: Vec<usize> = std::iter::once(self.interpreter + lists.interpreter_head)
                .chain(threads.iter().map(|thread| thread + lists.thread_head))
                .collect();
            follow_rings(memory, &heads, &mut self.nodes)?;
            members.extend(self.nodes.iter().map(|node| (node.wrapping_sub(lists.node), false)));
        }
        running.sort_unstable();
        running.dedup();
        let population = members.len();
        let count = population.min(self.max_tasks);
        let mut random = fastrand::Rng::with_seed(self.seed);
        for n in 0..count {
            members.swap(n, random.usize(n..population));
        }
        members.truncate(count);
        let weight = population as f64 / count.max(1) as f64;
        let references: Vec<usize> =
            members.iter().filter(|member| member.1).map(|member| member.0 + REFERENT).collect();
        let mut bytes = Vec::new();
        read_each(memory, &references, WORD, &mut bytes);
        let referents = bytes.chunks_exact(WORD).map(|bytes| word(bytes, 0));
        let strong = members.iter().filter(|member| !member.1).map(|member| member.0);
        // A dead weak reference refers to None.
        let drawn = referents.chain(strong).filter(|task| !running.contains(task));
        let mut tasks: Vec<Fields> =
            drawn.map(|address| Fields { address, weight, ..Fields::default() }).collect();
        let current = running.iter();
        tasks.extend(current.map(|&address| Fields {
            address,
            weight: 1.0,
            running: true,
            ..Fields::default()
        }));
        Listing::read(objects, memory, tasks, &mut self.queues)
    }

    /// Builds the await stacks of what was read.
    fn build(&mut self, listing: &Listing, interner: &mut StackInterner) -> Result<TaskReading, Fault> {
        let mut reading = TaskReading { loops: listing.loops, ..TaskReading::default() };
        let (mut frames, mut leaf_first) = (Vec::new(), Vec::new());
        for task in &listing.tasks {
            frames.clear();
            for &position in &task.chain.positions {
                frames.extend(self.codes.frame(position, interner)?);
            }
            leaf_first.clear();
            if task.state == TaskState::Waiting {
                let innermost = frames.last().and_then(|&frame| interner.frame_text(frame)).unwrap_or("");
                let text = match &task.task_name {
                    Some(name) if name.is_empty() => "[task]".to_owned(),
                    Some(name) => format!("[task {name}]"),
                    None if innermost.starts_with("sleep (asyncio/tasks.py") => "[sleep]".to_owned(),
                    None if innermost.contains("(asyncio/locks.py") => "[lock]".to_owned(),
                    None if innermost.contains("(asyncio/queues.py") => "[queue]".to_owned(),
                    None => "[future]".to_owned(),
                };
                leaf_first.push(interner.intern_frame(&Call { function: &text, file: "", line: 0 }));
            }
            leaf_first.extend(frames.iter().rev());
            let (stack, _) = interner.intern_stack(&leaf_first, self.max_depth);
            reading.tasks.push((stack, task.state, task.weight));
        }
        reading.longest_ready_ns = self.lag.update(&listing.queues, monotonic_ns());
        Ok(reading)
    }
}

impl Listing {
    fn read(
        objects: &mut Objects,
        memory: &dyn Memory,
        mut tasks: Vec<Fields>,
        known_queues: &mut ByAddress<usize>,
    ) -> Result<Listing, Fault> {
        let at = objects.at;
        let addresses: Vec<usize> = tasks.iter().map(|task| task.address).collect();
        let mut bytes = Vec::new();
        // None, which dead references refer to, is shorter: what cannot be read of it is not needed.
        read_each(memory, &addresses, at.size, &mut bytes);
        let mut pending = Vec::with_capacity(tasks.len());
        for (task, object) in tasks.iter_mut().zip(bytes.chunks_exact(at.size)) {
            match objects.kind(memory, word(object, TYPE))? {
                Kind::Task => {
                    pending.push(object[at.state] & STATE_MASK == PENDING);
                    task.event_loop = word(object, LOOP);
                    task.waiter = word(object, at.waiter);
                    task.coroutine = word(object, at.coroutine());
                }
                Kind::PythonFuture => {
                    pending.push(task.read_attributes(objects, memory)?);
                }
                Kind::Unknown => return Err(Fault { address: task.address }),
                _ => pending.push(false),
            }
        }
        let mut pending = pending.into_iter();
        tasks.retain(|task| pending.next() == Some(true) && task.coroutine != 0);
        let coroutines: Vec<usize> = tasks.iter().map(|task| task.coroutine).collect();
        let chains = follow(objects, memory, &coroutines)?;
        let mut loops: Vec<usize> = tasks.iter().map(|task| task.event_loop).collect();
        loops.sort_unstable();
        loops.dedup();
        let mut listing = Listing { loops: loops.len(), ..Listing::default() };
        for (task, chain) in tasks.iter().zip(chains) {
            listing.tasks.push(task.decide(objects, memory, chain)?);
        }
        for event_loop in loops {
            let queue = match known_queues.get(&event_loop) {
                Some(&queue) => queue,
                None => *known_queues.entry(event_loop).or_insert(find_queue(objects, memory, event_loop)?),
            };
            if queue == 0 || objects.kind_of(memory, queue)? != Kind::Deque {
                known_queues.remove(&event_loop);
                continue;
            }
            let spans = [DEQUE_LENGTH, DEQUE_MOVES].map(|at| Span { address: queue + at, length: WORD });
            let mut words = [0; 2 * WORD];
            memory.read_all(&spans, &mut words)?;
            let (length, moves) = (word(&words, 0), word(&words, WORD));
            listing.queues.push(ReadyQueue { address: queue, length, moves });
        }
        Ok(listing)
    }
}

/// The queue of a loop, 0 if it cannot be found: an attribute of a loop in Python, the first deque of one in C.
fn find_queue(objects: &mut Objects, memory: &dyn Memory, event_loop: usize) -> Result<usize, Fault> {
    if let Ok(Some(queue)) = objects.attribute(memory, event_loop, "_ready") {
        return Ok(queue);
    }
    let kind = memory.word(event_loop.wrapping_add(TYPE))?;
    let size = memory.word(kind.wrapping_add(objects.layout.types.basicsize))?.min(MAX_LOOP) / WORD * WORD;
    let mut bytes = vec![0; size];
    memory.read(event_loop, &mut bytes)?;
    let words = bytes.chunks_exact(WORD).map(|bytes| word(bytes, 0));
    let candidates: Vec<usize> = words.filter(|&word| word > 4096 && word % WORD == 0).collect();
    let is_deque = |queue: &usize| matches!(objects.kind_of(memory, *queue), Ok(Kind::Deque));
    Ok(candidates.into_iter().find(is_deque).unwrap_or(0))
}

impl Fields {
    /// Reads a task in Python; whether it is pending.
    fn read_attributes(&mut self, objects: &mut Objects, memory: &dyn Memory) -> Result<bool, Fault> {
        let attribute = |name: &str| objects.attribute(memory, self.address, name);
        let (coroutine, state) = (attribute("_coro")?, attribute("_state")?);
        let (waiter, event_loop) = (attribute("_fut_waiter")?, attribute("_loop")?);
        // While it is pending the class has the state.
        let pending = state.map(|state| objects.text(memory, state)).transpose()?;
        self.coroutine = coroutine.unwrap_or(0);
        self.event_loop = event_loop.unwrap_or(0);
        self.waiter = waiter.unwrap_or(0);
        // None is no future.
        if self.waiter != 0 && objects.kind_of(memory, self.waiter)? == Kind::Other {
            self.waiter = 0;
        }
        Ok(pending.is_none_or(|state| state == "PENDING"))
    }

    fn decide(&self, objects: &mut Objects, memory: &dyn Memory, chain: AwaitChain) -> Result<Task, Fault> {
        let at = objects.at;
        let mut waits = self.waiter != 0;
        let mut task_name = None;
        if waits {
            if let kind @ (Kind::Task | Kind::Future) = objects.kind_of(memory, self.waiter)? {
                let mut state = [0];
                memory.read(self.waiter + at.state, &mut state)?;
                waits = state[0] & STATE_MASK == PENDING;
                if kind == Kind::Task {
                    task_name = Some(name_of(objects, memory, self.waiter)?);
                }
            }
        }
        let state = match (self.running, waits) {
            (true, _) => TaskState::Running,
            (false, true) => TaskState::Waiting,
            (false, false) => TaskState::Ready,
        };
        Ok(Task { address: self.address, state, weight: self.weight, chain, task_name })
    }
}

/// The name of a task; empty if it is one of those that asyncio makes up.
fn name_of(objects: &Objects, memory: &dyn Memory, task: usize) -> Result<String, Fault> {
    let name = memory.word(task + objects.at.name())?;
    if name == 0 {
        return Ok(String::new());
    }
    // From 3.12 on it is an int then.
    let Ok(name) = objects.text(memory, name) else { return Ok(String::new()) };
    Ok(match name.strip_prefix("Task-") {
        Some(number) if number.bytes().all(|byte| byte.is_ascii_digit()) => String::new(),
        _ => name,
    })
}

impl StackReader for TaskReader {
    fn interpreters(&mut self) -> Result<Vec<usize>, Failure> {
        Ok(vec![self.interpreter])
    }

    fn max_depth(&self) -> usize {
        self.max_depth
    }

    fn gil(&mut self, interpreter: usize) -> Result<GilState, Failure> {
        let read = InterpreterHead::read(&self.objects.layout, &self.memory, interpreter, &mut self.expected);
        Ok(TaskReader::gil_of(read?))
    }

    fn set_deadline(&mut self, until: Option<Instant>) {
        self.deadline = until;
    }

    fn end_reading(&mut self) {
        self.deadline = None;
        self.listing = None;
        self.codes.shrink();
        self.states.shrink();
    }

    fn read_and_verify(
        &mut self,
        interpreter: usize,
        _ran: &mut dyn FnMut(i32) -> bool,
        interner: &mut StackInterner,
        verify: &mut Verify<'_>,
    ) -> Result<Stacks, Failure> {
        self.reading = None;
        let latest = Instant::now() + MAX_READING;
        let deadline = self.deadline.map_or(latest, |deadline| deadline.min(latest));
        let remote = std::mem::replace(&mut self.memory, RemoteMemory::new(0));
        let memory = BoundedMemory::new(&remote, Some(deadline));
        let read = self.read_memory(&memory, interpreter, deadline);
        let late = memory.has_expired();
        self.memory = remote;
        let (head, listing) = read.map_err(|failure| if late { slow() } else { failure })?;
        let layout = self.objects.layout;
        let threads: Vec<(u64, Option<i32>)> = self
            .states
            .iter()
            .map(|(_, state)| {
                let native_id = native_ids::parse(word(state, layout.thread.identity()));
                (word(state, layout.thread.thread_id) as u64, native_id)
            })
            .collect();
        let gil = TaskReader::gil_of(head);
        let (memory, expected) = (&self.memory, &mut self.expected);
        let mut gil_now =
            || Ok(TaskReader::gil_of(InterpreterHead::read(&layout, memory, interpreter, expected)?));
        let mut ids = threads.iter().copied();
        verify(MemoryReading { gil, threads: &mut ids, gil_now: &mut gil_now })?;
        // Another reading of the same attempt: some thread worked without the GIL, and may have had it in between.
        if self.listing.as_ref().is_some_and(|first| *first != listing) {
            return Err(Failure::transient("moved", &"a task changed while it was read"));
        }
        self.reading = Some(self.build(&listing, interner)?);
        self.listing = Some(listing);
        let threads =
            threads.iter().map(|&(thread_id, native_id)| no_stack(thread_id, native_id, interpreter));
        Ok(Stacks { threads: threads.collect(), gil })
    }
}

impl TaskReader {
    fn read_memory(
        &mut self,
        memory: &dyn Memory,
        interpreter: usize,
        deadline: Instant,
    ) -> Result<(InterpreterHead, Listing), Failure> {
        let previous = std::mem::take(&mut self.previous);
        let interpreters = self.objects.layout.interpreters(memory)?;
        let read = self.states.read(
            &self.objects.layout,
            memory,
            (interpreter, &interpreters),
            &mut self.expected,
            previous.into_iter(),
        )?;
        let head = read.ok_or_else(|| Failure::new("moved", &"an interpreter was made or ended"))?;
        self.previous = self.states.iter().map(|(address, _)| address).collect();
        let listing = self.list(memory)?;
        let positions: Vec<CodePosition> =
            listing.tasks.iter().flat_map(|task| task.chain.positions.iter().copied()).collect();
        if !self.codes.refresh(memory, &positions, head.freed, Some(deadline)) {
            return Err(slow());
        }
        Ok((head, listing))
    }
}

fn no_stack(thread_id: u64, native_id: Option<i32>, interpreter: usize) -> ThreadStack {
    ThreadStack {
        thread_id,
        native_id,
        interpreter,
        owns_gil: false,
        active: false,
        stack: StackId::NO_FRAMES,
        truncated: false,
        failed: false,
    }
}

fn slow() -> Failure {
    Failure::new("slow", &"the tasks could not be read while threads may be stopped (max-stop-ms)")
}
