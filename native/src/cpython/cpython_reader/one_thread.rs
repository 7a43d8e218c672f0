//! A reading of one thread by itself, as free-threaded builds need it.

use super::{cut_middle, slow, CpythonReader, Interpreter, Thread};
use crate::cpython::frames::WalkError;
use crate::linux::bounded_memory::BoundedMemory;
use crate::linux::memory::{word, Memory};
use crate::stacks::stack_interner::StackInterner;
use crate::stacks::stack_reader::{Failure, ThreadStack};
use rustc_hash::FxHashMap;

impl<M: Memory> CpythonReader<M> {
    /// Reads a thread that the last reading of all found.
    pub(super) fn read_one(
        &mut self,
        interpreter: usize,
        thread_id: u64,
        interner: &mut StackInterner,
        release: &mut dyn FnMut(),
    ) -> Result<ThreadStack, Failure> {
        let deadline = self.deadline.map_or(self.tick_end, |deadline| deadline.min(self.tick_end));
        let memory = BoundedMemory::new(&self.memory, Some(deadline));
        let ended = || Failure::transient("moved", &"a thread ended while it was read");
        let thread = find(&mut self.interpreters, interpreter, thread_id).ok_or_else(ended)?;
        let mut state = vec![0; self.layout.thread.size];
        memory.read(thread.address, &mut state)?;
        let ids = (thread.thread_id, thread.identity);
        thread.identify(&self.layout, &state);
        if word(&state, self.layout.thread.interpreter) != interpreter
            || ids != (thread.thread_id, thread.identity)
        {
            return Err(ended());
        }
        self.positions.clear();
        let (frames, positions) = (&mut thread.off_stack_frames, &mut self.positions);
        let walked = self.walker.walk(&memory, &state, false, Some(deadline), frames, positions);
        let refreshed = self.codes.refresh(&memory, &self.positions, None, Some(deadline));
        release();
        if walked == Err(WalkError::Timeout) || !refreshed || memory.has_expired() {
            return Err(slow());
        }
        let (native_id, attached, before) = (thread.native_id, thread.attached, thread.last_stack);
        cut_middle(&mut self.positions, 0, self.max_depth);
        let stack = walked.ok().and_then(|()| self.stack_of(0..self.positions.len(), interner).ok());
        let (id, truncated) =
            stack.unwrap_or_else(|| (interner.unread_stack(before.map(|(stack, _)| stack)), false));
        if let Some(thread) = find(&mut self.interpreters, interpreter, thread_id) {
            (thread.failed, thread.last_stack) = (stack.is_none(), stack.or(before));
        }
        Ok(ThreadStack {
            thread_id,
            native_id,
            interpreter,
            owns_gil: false,
            active: attached,
            stack: id,
            truncated,
            failed: stack.is_none(),
        })
    }
}

fn find(
    interpreters: &mut FxHashMap<usize, Interpreter>,
    interpreter: usize,
    thread_id: u64,
) -> Option<&mut Thread> {
    interpreters.get_mut(&interpreter)?.threads.iter_mut().find(|thread| thread.thread_id == thread_id)
}
