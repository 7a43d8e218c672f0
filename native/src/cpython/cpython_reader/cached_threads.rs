//! The cached state of an interpreter's threads, from one reading to the next.

use super::{Interpreter, Thread, ThreadReading, MAX_ALL_REMEMBERED};
use crate::cpython::by_address::ByAddress;
use crate::cpython::cpython_layout::{Layout, NativeId};
use crate::cpython::native_ids::{self, NativeIds};
use crate::cpython::thread_states::ThreadStates;
use crate::linux::memory::{word, Memory};

impl Interpreter {
    /// Brings the threads into the order of the states: keeps existing ones, adds new ones.
    pub(super) fn reorder(&mut self, states: &ThreadStates) {
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

    /// Finds threads that have not run among those that there was no time for; nothing is read of the target.
    pub(super) fn visit_rest(&mut self, ran: &mut dyn FnMut(i32) -> bool) {
        let mut remembered = 0;
        for thread in &mut self.threads {
            if matches!(thread.reading, ThreadReading::Unvisited) && thread.is_unchanged(ran) {
                thread.reading = ThreadReading::Unchanged;
            }
            remembered += thread.off_stack_frames.len();
            if remembered > MAX_ALL_REMEMBERED {
                thread.off_stack_frames = Vec::new();
            }
        }
    }

    /// Reads the kernel's ids of new threads.
    pub(super) fn read_native_ids(&mut self, native_ids: &NativeIds, memory: &dyn Memory) {
        let mut unnamed: Vec<&mut Thread> =
            self.threads.iter_mut().filter(|thread| thread.native_id.is_none()).collect();
        if unnamed.is_empty() {
            return;
        }
        let pthreads: Vec<usize> = unnamed.iter().map(|thread| thread.thread_id as usize).collect();
        for (thread, native_id) in unnamed.iter_mut().zip(native_ids.read_many(memory, &pthreads)) {
            thread.native_id = native_id;
        }
    }
}

impl Thread {
    /// Reads its ids. Another thread may have a state at the same address now.
    pub(super) fn identify(&mut self, layout: &Layout, state: &[u8]) {
        let thread_id = word(state, layout.thread.thread_id) as u64;
        let identity = word(state, layout.thread.identity());
        if (self.thread_id, self.identity) != (thread_id, identity) {
            let native_id = match layout.thread.native_id {
                NativeId::Field(_) => native_ids::parse(identity),
                NativeId::BehindPthread { .. } => None,
            };
            *self = Thread { address: self.address, thread_id, identity, native_id, ..Thread::default() };
        }
        self.reading = ThreadReading::Unvisited;
    }

    /// Whether it was read, and has not run since.
    pub(super) fn is_unchanged(&self, ran: &mut dyn FnMut(i32) -> bool) -> bool {
        self.last_stack.is_some() && !self.failed && self.native_id.is_some_and(|id| !ran(id))
    }
}
