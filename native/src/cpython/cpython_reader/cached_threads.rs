//! The cached state of an interpreter's threads, from one reading to the next.

use super::{Interpreter, Thread, ThreadReading, MAX_ALL_REMEMBERED};
use crate::cpython::cpython_layout::{Layout, NativeId};
use crate::cpython::native_ids::{self, NativeIds};
use crate::cpython::thread_states::ThreadStates;
use crate::linux::memory::{word, Memory};
use rustc_hash::FxHashMap;

impl Interpreter {
    /// Brings the threads into the order of the states: keeps existing ones, adds new ones.
    pub(super) fn reorder(&mut self, states: &ThreadStates) {
        let same = self.threads.len() == states.count()
            && self.threads.iter().zip(states.iter()).all(|(thread, (address, _))| thread.address == address);
        if same {
            return;
        }
        let mut before: FxHashMap<usize, Thread> =
            self.threads.drain(..).map(|thread| (thread.address, thread)).collect();
        self.threads.extend(states.iter().map(|(address, _)| {
            before.remove(&address).unwrap_or_else(|| Thread { address, ..Thread::default() })
        }));
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
        self.attached = layout.is_attached(state);
        self.reading = ThreadReading::Unvisited;
    }

    /// Finds whether it has run, if there was no time for that; nothing is read of the target. `remembered` counts the
    /// frames that are remembered of all threads.
    pub(super) fn visit(&mut self, ran: &mut dyn FnMut(i32) -> bool, remembered: &mut usize) {
        if matches!(self.reading, ThreadReading::Unvisited) && self.is_unchanged(ran) {
            self.reading = ThreadReading::Unchanged;
        }
        *remembered += self.off_stack_frames.len();
        if *remembered > MAX_ALL_REMEMBERED {
            self.off_stack_frames = Vec::new();
        }
    }

    /// Whether this reading has its frames.
    pub(super) fn was_read(&self) -> bool {
        matches!(self.reading, ThreadReading::Frames(_))
    }

    pub(super) fn ids(&self) -> (u64, Option<i32>) {
        (self.thread_id, self.native_id)
    }

    /// Whether it was read, and has not run since.
    pub(super) fn is_unchanged(&self, ran: &mut dyn FnMut(i32) -> bool) -> bool {
        self.last_stack.is_some() && !self.failed && self.native_id.is_some_and(|id| !ran(id))
    }
}
