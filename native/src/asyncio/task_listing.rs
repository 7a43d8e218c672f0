//! What is found in memory about tasks: their states, what they await, and the queues of their loops.

use crate::asyncio::await_chain::{follow, AwaitChain};
use crate::asyncio::loop_lag::ReadyQueue;
use crate::asyncio::objects::{read_each, Kind, Objects};
use crate::asyncio::task_counts::TaskState;
use crate::asyncio::task_layout::{LOOP, PENDING, REFERENT, STATE_MASK};
use crate::cpython::cpython_layout::TYPE;
use crate::linux::memory::{word, Fault, Memory, Span};
use rustc_hash::FxHashMap;

/// Of a deque: its length and how often its ends moved.
const DEQUE_LENGTH: usize = 16;
const DEQUE_MOVES: usize = 56;
/// As much of a loop in C as is searched for its queue.
const MAX_LOOP: usize = 512;
/// More than most processes have.
const MAX_LOOPS: usize = 256;
const WORD: usize = size_of::<usize>();

/// All that a reading found in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    pub tasks: Vec<Task>,
    pub queues: Vec<ReadyQueue>,
    pub loops: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub address: usize,
    pub coroutine: usize,
    pub state: TaskState,
    pub weight: f64,
    pub chain: AwaitChain,
    /// The name of the task that it waits for; empty if that has none of its own.
    pub task_name: Option<String>,
}

/// The fields of a task.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fields {
    address: usize,
    weight: f64,
    running: bool,
    event_loop: usize,
    waiter: usize,
    coroutine: usize,
}

/// A member of a collection of tasks.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    pub address: usize,
    /// It is a weak reference to a task.
    pub is_weak: bool,
}

/// The tasks that these are. A dead weak reference refers to None.
pub fn tasks_of(memory: &dyn Memory, members: &[Member]) -> Vec<usize> {
    let weak = members.iter().filter(|member| member.is_weak);
    let references: Vec<usize> = weak.map(|member| member.address + REFERENT).collect();
    let mut bytes = Vec::new();
    read_each(memory, &references, WORD, &mut bytes);
    let referents = bytes.chunks_exact(WORD).map(|bytes| word(bytes, 0));
    let strong = members.iter().filter(|member| !member.is_weak).map(|member| member.address);
    referents.chain(strong).collect()
}

/// The event loops of tasks, in order. Of a task that ends meanwhile there may be none.
pub fn loops_of(objects: &mut Objects, memory: &dyn Memory, tasks: &[usize]) -> Result<Vec<usize>, Fault> {
    const LENGTH: usize = LOOP + WORD;
    let mut bytes = Vec::new();
    read_each(memory, tasks, LENGTH, &mut bytes);
    let mut loops = Vec::new();
    for (&task, object) in tasks.iter().zip(bytes.chunks_exact(LENGTH)) {
        match objects.kind(memory, word(object, TYPE)) {
            Ok(Kind::Task) => loops.push(word(object, LOOP)),
            Ok(Kind::PythonFuture) => loops.extend(objects.attribute(memory, task, "_loop")?),
            _ => {}
        }
        if loops.len() > MAX_LOOPS {
            sort(&mut loops);
        }
    }
    sort(&mut loops);
    Ok(loops)
}

fn sort(loops: &mut Vec<usize>) {
    loops.sort_unstable();
    loops.dedup();
}

impl Listing {
    /// Reads these tasks, and the queues of their loops and of `other_loops`.
    pub fn read(
        objects: &mut Objects,
        memory: &dyn Memory,
        mut tasks: Vec<Fields>,
        other_loops: &[usize],
        known_queues: &mut FxHashMap<usize, usize>,
    ) -> Result<Listing, Fault> {
        let at = objects.at;
        let addresses: Vec<usize> = tasks.iter().map(|task| task.address).collect();
        let mut bytes = Vec::new();
        // None, which dead references refer to, is shorter: what cannot be read of it is not needed.
        read_each(memory, &addresses, at.size, &mut bytes);
        let mut pending = Vec::with_capacity(tasks.len());
        for (task, object) in tasks.iter_mut().zip(bytes.chunks_exact(at.size)) {
            // Of what was read ahead, another object may be there by now.
            let kind = objects.kind(memory, word(object, TYPE)).unwrap_or(Kind::Other);
            match kind {
                Kind::Task => {
                    // What was taken out of its list has ended.
                    let is_listed =
                        task.running || at.lists.is_none_or(|lists| word(object, lists.node) != 0);
                    pending.push(is_listed && object[at.state] & STATE_MASK == PENDING);
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
        sort(&mut loops);
        let mut listing = Listing { loops: loops.len(), ..Listing::default() };
        let others = other_loops.iter().filter(|event_loop| !loops.contains(event_loop));
        let others: Vec<(usize, usize)> = others.map(|&event_loop| (event_loop, 1)).collect();
        for (task, chain) in tasks.iter().zip(chains) {
            listing.tasks.push(task.decide(objects, memory, chain)?);
        }
        // Of what was a loop a while ago the queue tells whether it still is.
        for (event_loop, uncounted) in loops.into_iter().map(|event_loop| (event_loop, 0)).chain(others) {
            let queue = match known_queues.get(&event_loop) {
                Some(&queue) => queue,
                None => match find_queue(objects, memory, event_loop) {
                    Err(_) if uncounted > 0 => continue,
                    queue => *known_queues.entry(event_loop).or_insert(queue?),
                },
            };
            if queue == 0 || objects.kind_of(memory, queue)? != Kind::Deque {
                known_queues.remove(&event_loop);
                continue;
            }
            let spans = [DEQUE_LENGTH, DEQUE_MOVES].map(|at| Span { address: queue + at, length: WORD });
            let mut words = [0; 2 * WORD];
            memory.read_all(&spans, &mut words)?;
            let (length, moves) = (word(&words, 0), word(&words, WORD));
            listing.loops += uncounted;
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
    /// A task that stands for so many.
    pub fn new(address: usize, weight: f64, running: bool) -> Fields {
        Fields { address, weight, running, ..Fields::default() }
    }

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
        Ok(Task {
            address: self.address,
            coroutine: self.coroutine,
            state,
            weight: self.weight,
            chain,
            task_name,
        })
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
