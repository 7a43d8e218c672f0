//! Reads the stacks of CPython 3.11 to 3.14 with few and small reads.
//!
//! A reading takes all thread states of an interpreter at once (`states`), then the frames of each thread that
//! has run since the last one (`frames`), then what may have changed of their code objects (`code`). Where
//! nothing is new nothing is allocated but the answer.

use crate::cpython::call_entry::Entering;
use crate::cpython::code_objects::{ByAddress, Codes, Place};
use crate::cpython::cpython_layout::{Current, Layout};
use crate::cpython::frames::{Trouble, Walker};
use crate::cpython::runtime::Runtime;
use crate::cpython::thread_states::{Expected, Head, States};
use crate::linux::memory::{word, Fault, Memory, Remote};
use crate::stacks::stack_interner::{Book, FrameId, StackId};
use crate::stacks::stack_reader::{Failure, Gil, StackReader, Stacks, ThreadStack};
use std::ops::Range;
use std::time::Instant;

/// The own reader of one process.
#[derive(Debug)]
pub struct Own<M> {
    memory: M,
    python: String,
    layout: Layout,
    max_depth: usize,
    /// The oldest first.
    listed: Vec<usize>,
    interpreters: ByAddress<Interpreter>,
    states: States,
    walker: Walker,
    codes: Codes,
    /// When a reading is to be given up.
    deadline: Option<Instant>,
    entering: Entering,
    /// The generation of the book that the last stacks are of.
    generation: u64,
    // Kept to be filled again.
    places: Vec<Place>,
    frames: Vec<FrameId>,
}

/// What is known of an interpreter from the last reading.
#[derive(Debug, Default)]
struct Interpreter {
    /// In the order of its list.
    threads: Vec<Thread>,
    expected: Expected,
    /// As of the last reading.
    head: Head,
}

#[derive(Debug, Default)]
struct Thread {
    /// Of its PyThreadState.
    address: usize,
    thread_id: u64,
    native_id: Option<i32>,
    /// Its frames outside its data stack.
    elsewhere: Vec<usize>,
    /// Its last good stack, and whether that was cut.
    last: Option<(StackId, bool)>,
    /// The reading after that one failed.
    missed: bool,
    now: Now,
}

/// What a reading has found of a thread.
#[derive(Clone, Debug, Default)]
enum Now {
    #[default]
    Unread,
    /// It has not run.
    AsItWas,
    /// Its stack is this part of `places`.
    At(Range<usize>),
}

impl Own<Remote> {
    /// Finds the Python of a process. Stacks are cut at `max_depth` frames.
    pub fn attach(pid: i32, max_depth: usize) -> Result<Self, Failure> {
        let memory = Remote { pid };
        let Runtime { python, layout } = Runtime::find(pid, &memory)?;
        let mut own = Own { python, ..Own::of(memory, pid, &layout, max_depth) };
        own.warm_up();
        Ok(own)
    }

    /// The target's Python, like "3.11.7".
    pub fn python(&self) -> String {
        self.python.clone()
    }
}

impl<M: Memory> Own<M> {
    pub fn of(memory: M, pid: i32, layout: &Layout, max_depth: usize) -> Own<M> {
        Own {
            memory,
            python: String::new(),
            layout: *layout,
            max_depth,
            listed: Vec::new(),
            interpreters: ByAddress::default(),
            states: States::of(layout),
            walker: Walker::of(layout),
            codes: Codes::of(pid, layout),
            deadline: None,
            entering: Entering::default(),
            generation: 0,
            places: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// Meets most code objects before anybody stands still for it. What is wrong, because it moved while it was
    /// read, is found out when it stands.
    fn warm_up(&mut self) {
        self.listed = self.layout.interpreters(&self.memory).unwrap_or_default();
        for address in self.listed.clone() {
            let mut interpreter = Interpreter::default();
            let _ = self.collect(address, &mut interpreter, &mut |_| true);
        }
        self.entering.not_found();
        self.listed.clear();
    }

    /// Reads where the threads of an interpreter are.
    fn collect(
        &mut self,
        address: usize,
        interpreter: &mut Interpreter,
        ran: &mut dyn FnMut(i32) -> bool,
    ) -> Result<(), Failure> {
        let until = self.deadline;
        let last_time = interpreter.threads.iter().map(|thread| thread.address);
        let expected = &mut interpreter.expected;
        let known = (address, &*self.listed);
        let Some(head) = self.states.read(&self.layout, &self.memory, known, expected, last_time)? else {
            self.listed.clear();
            return Err(Failure::new("moved", &"an interpreter was made or ended"));
        };
        interpreter.head = head;
        interpreter.match_with(&self.states);
        self.places.clear();
        for (thread, (_, state)) in interpreter.threads.iter_mut().zip(self.states.iter()) {
            thread.look(&self.layout, state);
            let read = thread.last.is_some() && !thread.missed;
            if read && thread.native_id.is_some_and(|id| !ran(id)) {
                thread.now = Now::AsItWas;
                continue;
            }
            let began = self.places.len();
            let mut walk = |entering| {
                self.places.truncate(began);
                self.walker.walk(
                    &self.memory,
                    state,
                    entering,
                    until,
                    &mut thread.elsewhere,
                    &mut self.places,
                )
            };
            let holds = thread.address == head.holder;
            let mut walked = walk(holds);
            if walked == Err(Trouble::Entering) && self.entering.is_the_rule() {
                walked = walk(false);
            } else if holds && walked.is_ok() {
                self.entering.not_found();
            }
            thread.now = match walked {
                Ok(()) => Now::At(began..self.places.len()),
                Err(Trouble::Entering) => {
                    self.entering.found(self.walker.moment());
                    return Err(Failure::passing("read", &"a call was being entered"));
                }
                Err(Trouble::Slow) => return Err(slow()),
                Err(_) => {
                    self.places.truncate(began);
                    Now::Unread
                }
            };
        }
        match self.codes.look(&self.memory, &self.places, head.freed, until) {
            true => Ok(()),
            false => Err(slow()),
        }
    }

    fn stack_of(&mut self, places: Range<usize>, book: &mut Book) -> Result<(StackId, bool), Fault> {
        self.frames.clear();
        for &place in &self.places[places] {
            self.frames.extend(self.codes.frame(place, book)?);
        }
        Ok(book.stack(&self.frames, self.max_depth))
    }
}

impl<M: Memory + Send> StackReader for Own<M> {
    fn interpreters(&mut self) -> Result<Vec<usize>, Failure> {
        // Whether they still are all of them, every reading sees.
        if self.listed.is_empty() {
            self.listed = self.layout.interpreters(&self.memory)?;
            self.interpreters.retain(|address, _| self.listed.contains(address));
        }
        Ok(self.listed.clone())
    }

    fn max_depth(&self) -> usize {
        self.max_depth
    }

    fn names_threads(&self, interpreter: usize) -> bool {
        let since_3_13 = matches!(self.layout.thread.current, Current::Frame(_));
        since_3_13 || self.listed.first().is_none_or(|&main| main == interpreter)
    }

    fn gil(&mut self, interpreter: usize) -> Result<Gil, Failure> {
        let expected = &mut self.interpreters.entry(interpreter).or_default().expected;
        Ok(Head::read(&self.layout, &self.memory, interpreter, expected)?.into())
    }

    fn deadline(&mut self, until: Option<Instant>) {
        self.deadline = until;
    }

    fn read(
        &mut self,
        interpreter: usize,
        ran: &mut dyn FnMut(i32) -> bool,
        book: &mut Book,
    ) -> Result<Stacks, Failure> {
        if self.generation != book.generation() {
            self.generation = book.generation();
            let threads = self.interpreters.values_mut().flat_map(|known| &mut known.threads);
            threads.for_each(|thread| thread.last = None);
        }
        let mut known = self.interpreters.remove(&interpreter).unwrap_or_default();
        let collected = self.collect(interpreter, &mut known, ran);
        let mut stacks = Vec::with_capacity(known.threads.len());
        if collected.is_ok() {
            for thread in &mut known.threads {
                let stack = match thread.now.clone() {
                    Now::Unread => None,
                    Now::AsItWas => thread.last,
                    Now::At(places) => self.stack_of(places, book).ok(),
                };
                thread.missed = stack.is_none();
                let before = thread.last.map(|(stack, _)| stack);
                thread.last = stack.or(thread.last);
                let (id, truncated) = stack.unwrap_or_else(|| (book.unread(before), false));
                stacks.push(ThreadStack {
                    thread_id: thread.thread_id,
                    native_id: thread.native_id,
                    interpreter,
                    owns_gil: thread.address == known.head.holder,
                    active: true,
                    stack: id,
                    truncated,
                    failed: stack.is_none(),
                });
            }
        }
        let gil = known.head.into();
        self.interpreters.insert(interpreter, known);
        collected.map(|()| Stacks { threads: stacks, gil })
    }
}

impl Interpreter {
    /// Brings the threads into the order of the states: keeps those that are still there, adds new ones.
    fn match_with(&mut self, states: &States) {
        let same = self.threads.len() == states.count()
            && self.threads.iter().zip(states.iter()).all(|(thread, (address, _))| thread.address == address);
        if same {
            return;
        }
        let mut before: ByAddress<Thread> =
            self.threads.drain(..).map(|thread| (thread.address, thread)).collect();
        self.threads.extend(states.iter().map(|(address, _)| {
            before.remove(&address).unwrap_or_else(|| Thread { address, ..Thread::default() })
        }));
    }
}

impl Thread {
    /// Sees who it is. Another thread may have come to live at the same address.
    fn look(&mut self, layout: &Layout, state: &[u8]) {
        let id = word(state, layout.thread.thread_id) as u64;
        let native_id = native_id(word(state, layout.thread.native_id));
        if (self.thread_id, self.native_id) != (id, native_id) {
            *self = Thread { address: self.address, thread_id: id, native_id, ..Thread::default() };
        }
    }
}

impl From<Head> for Gil {
    fn from(head: Head) -> Gil {
        Gil { holder: head.holder, native_id: native_id(head.native_id), switches: head.switches }
    }
}

/// The kernel's id of a thread; 0 where Python has not asked for it yet.
fn native_id(word: usize) -> Option<i32> {
    i32::try_from(word).ok().filter(|&id| id > 0)
}

fn slow() -> Failure {
    Failure::new("slow", &"the stacks could not be read in the time that threads may be stopped")
}

#[cfg(test)]
mod tests;
