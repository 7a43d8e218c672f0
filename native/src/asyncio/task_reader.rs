//! The asyncio tasks of a process, read from outside.
//!
//! To `gil_stop` this is a reader like that of stacks, so a reading is proved consistent in the same way: nothing of
//! the interpreter ran from its beginning to its end. A reading that could not be is a failure.
//!
//! Of more than `max_tasks` tasks a random subset is read. Each of them has the same chance, so each stands for as
//! many tasks as there are for one that was read. The running task of a loop is always read and stands for itself.
//!
//! Lists that are too long to be followed during a stop, and the loops of all tasks, are read ahead. What was read
//! ahead is where to look: each task and queue that a reading counts is read again, and proved, with the rest.

use crate::asyncio::loop_lag::LoopLag;
use crate::asyncio::objects::{read_each, Kind, Objects};
use crate::asyncio::running_stacks::RunningStacks;
use crate::asyncio::task_counts::{TaskReading, TaskState};
use crate::asyncio::task_layout::{TaskLayout, TaskLists};
use crate::asyncio::task_listing::{loops_of, tasks_of, Fields, Listing, Member};
use crate::asyncio::task_lists::TaskRings;
use crate::asyncio::task_sources::TaskSources;
use crate::cpython::code_objects::{CodeObjects, CodePosition};
use crate::cpython::cpython_layout::Layout;
use crate::cpython::native_ids;
use crate::cpython::thread_states::{Expected, InterpreterHead, ThreadStates};
use crate::linux::bounded_memory::BoundedMemory;
use crate::linux::memory::{word, Fault, Memory, RemoteMemory};
use crate::linux::os::monotonic_ns;
use crate::stacks::frame_text::Call;
use crate::stacks::stack_interner::{StackId, StackInterner};
use crate::stacks::stack_reader::{
    Failure, GilState, MemoryReading, StackReader, Stacks, ThreadStack, Verify,
};
use rustc_hash::FxHashMap;
use std::time::{Duration, Instant};

/// The longest that a reading may take: other processes wait for it.
const MAX_READING: Duration = Duration::from_millis(50);
/// How often a process without asyncio is searched for it.
const SEARCH_NS: u64 = 2_000_000_000;
/// How often the loops of all tasks are looked up where a reading has only some of them.
const LOOPS_NS: u64 = 1_000_000_000;
/// How often long lists of tasks are followed from end to end.
const WALK_NS: u64 = 10_000_000_000;
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
    queues: FxHashMap<usize, usize>,
    lag: LoopLag,
    running: RunningStacks,
    /// How many tasks the last reading chose from.
    population: usize,
    /// The loops of all tasks, as of the time before `loops_ns`.
    loops: Vec<usize>,
    loops_ns: u64,
    rings: TaskRings,
    /// When rings are followed ahead from end to end.
    walk_ns: u64,
    deadline: Option<Instant>,
    seed: u64,
    /// The first reading of an attempt, and what became of it.
    listing: Option<Listing>,
    reading: Option<TaskReading>,
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
            queues: FxHashMap::default(),
            lag: LoopLag::default(),
            running: RunningStacks::new(layout, at)?,
            population: 0,
            loops: Vec::new(),
            loops_ns: 0,
            rings: TaskRings::default(),
            walk_ns: 0,
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
        self.running.prepare();
        self.sources.as_ref()?;
        let remote = std::mem::replace(&mut self.memory, RemoteMemory::new(0));
        // What cannot be read ahead is missing in the reading, or that fails.
        let _ = self.read_ahead(&BoundedMemory::new(&remote, Some(Instant::now() + MAX_READING)));
        self.memory = remote;
        Some(self.interpreter)
    }

    /// Reads what there is no time for during a stop, while the process runs.
    fn read_ahead(&mut self, memory: &dyn Memory) -> Result<(), Fault> {
        let now_ns = monotonic_ns();
        if let Some(lists) = self.objects.at.lists {
            let is_due = self.rings.are_long() && now_ns >= self.walk_ns;
            if is_due {
                self.walk_ns = now_ns + WALK_NS;
            }
            self.rings.follow_ahead(memory, heads(lists, self.interpreter, &self.previous), is_due)?;
        }
        if self.population <= self.max_tasks {
            self.loops.clear();
        } else if now_ns >= self.loops_ns {
            let members = self.members(memory)?;
            self.loops = loops_of(&mut self.objects, memory, &tasks_of(memory, &members))?;
            self.loops_ns = now_ns + LOOPS_NS;
        }
        Ok(())
    }

    /// The members of all collections, as of now but for lists.
    fn members(&mut self, memory: &dyn Memory) -> Result<Vec<Member>, Fault> {
        let lists = self.objects.at.lists.map_or(0, |lists| lists.node);
        let nodes = self.rings.nodes().map(|node| node.wrapping_sub(lists));
        let mut members: Vec<Member> = nodes.map(|address| Member { address, is_weak: false }).collect();
        for &(set, is_weak) in self.sources.iter().flat_map(|sources| &sources.sets) {
            if self.objects.kind_of(memory, set)? != Kind::Set {
                return Err(Fault { address: set });
            }
            let found = self.objects.set(memory, set)?;
            members.extend(found.into_iter().map(|address| Member { address, is_weak }));
        }
        Ok(members)
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
        let Some(sources) = &self.sources else { return Ok(Listing::default()) };
        let mut running: Vec<usize> = match sources.current {
            0 => Vec::new(),
            current => self.objects.dict(memory, current)?.into_iter().map(|(_, task)| task).collect(),
        };
        if let Some(lists) = self.objects.at.lists {
            let current: Vec<usize> = self.previous.iter().map(|thread| thread + lists.running).collect();
            let mut bytes = Vec::new();
            read_each(memory, &current, WORD, &mut bytes);
            running.extend(bytes.chunks_exact(WORD).map(|bytes| word(bytes, 0)).filter(|&task| task != 0));
            self.rings.follow(memory, heads(lists, self.interpreter, &self.previous))?;
        }
        running.sort_unstable();
        running.dedup();
        let mut members = self.members(memory)?;
        self.population = members.len();
        let count = self.population.min(self.max_tasks);
        let mut random = fastrand::Rng::with_seed(self.seed);
        for n in 0..count {
            members.swap(n, random.usize(n..self.population));
        }
        members.truncate(count);
        let weight = self.population as f64 / count.max(1) as f64;
        let mut drawn = tasks_of(memory, &members);
        drawn.retain(|task| !running.contains(task));
        let drawn = drawn.into_iter().map(|address| Fields::new(address, weight, false));
        let running = running.iter().map(|&address| Fields::new(address, 1.0, true));
        let tasks = drawn.chain(running).collect();
        Listing::read(&mut self.objects, memory, tasks, &self.loops, &mut self.queues)
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
        self.running.shrink();
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
        let interpreters = self.objects.layout.interpreters(memory)?;
        let read = self.states.read(
            &self.objects.layout,
            memory,
            (interpreter, &interpreters),
            &mut self.expected,
            self.previous.iter().copied(),
        )?;
        let head = read.ok_or_else(|| Failure::new("moved", &"an interpreter was made or ended"))?;
        self.previous = self.states.iter().map(|(address, _)| address).collect();
        let mut listing = self.list(memory)?;
        self.running.extend(memory, &mut listing, &self.states, head.holder, deadline)?;
        let positions: Vec<CodePosition> =
            listing.tasks.iter().flat_map(|task| task.chain.positions.iter().copied()).collect();
        if !self.codes.refresh(memory, &positions, head.freed, Some(deadline)) {
            return Err(slow());
        }
        Ok((head, listing))
    }
}

/// The heads of the lists of an interpreter and its threads.
fn heads(lists: TaskLists, interpreter: usize, threads: &[usize]) -> Vec<usize> {
    let of_threads = threads.iter().map(|thread| thread + lists.thread_head);
    std::iter::once(interpreter + lists.interpreter_head).chain(of_threads).collect()
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

pub fn slow() -> Failure {
    Failure::new("slow", &"the tasks could not be read while threads may be stopped (max-stop-ms)")
}
