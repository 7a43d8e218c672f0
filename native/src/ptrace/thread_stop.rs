//! Consistent stacks of a free-threaded Python: a thread that runs is stopped alone, for its own reading.
//!
//! Without a GIL only a thread itself changes its stack. So a reading of a thread is consistent if the thread is
//! stopped, or had no CPU from the beginning to the end of it: its run count has not changed.
//!
//! A thread on a CPU that is detached runs C code, and may be about to sleep: a stop would wake it. It is read twice
//! instead, and both readings must be equal; at later tries it is stopped.

use crate::linux::os_thread::Recheck;
use crate::ptrace::gil_stop::{
    moved, read_one, refused, unchecked, ConsistentReader, ReadResult, UNSTOPPED_READ_SHARE,
};
use crate::ptrace::ptrace_stop::{StopError, Stopper};
use crate::stacks::stack_reader::{Failure, MemoryReading, ThreadStack};
use std::cell::RefCell;
use std::time::Instant;

impl ConsistentReader<'_> {
    /// Reads all threads that have no CPU, then the others one by one.
    pub(super) fn attempt_each(&mut self, interpreter: usize, n: usize, stopper: &mut Stopper) -> ReadResult {
        let deadline = self.unstopped_deadline(stopper, UNSTOPPED_READ_SHARE);
        self.reader.set_deadline(deadline);
        self.reader.leave_out(self.threads.native_ids_not_off_cpu());
        let mut ran = Vec::new();
        let threads = RefCell::new(&mut *self.threads);
        let mut verify = |MemoryReading { threads: read, .. }: MemoryReading<'_>| {
            let mut threads = threads.borrow_mut();
            for (thread_id, native_id) in read {
                if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    return Err(unchecked());
                }
                let tid = threads.resolve(native_id, thread_id);
                if tid.is_some_and(|tid| threads.recheck(tid) != Recheck::OffCpu) {
                    ran.push(thread_id);
                }
            }
            Ok(true)
        };
        let read = read_one(self.reader, &threads, self.interner, interpreter, &mut verify);
        self.reader.leave_out(Vec::new());
        self.reader.end_reading();
        // Threads come and go meanwhile.
        let stacks =
            read.map_err(|failure| Failure { retry: failure.retry || failure.kind == "read", ..failure })?;
        let mut found = Vec::with_capacity(stacks.threads.len());
        for thread in stacks.threads {
            // Else nothing runs in this thread state, or its thread is newer than the last observation.
            let Some(tid) = self.threads.resolve(thread.native_id, thread.thread_id) else { continue };
            if self.threads.is_off_cpu(tid) && !ran.contains(&thread.thread_id) {
                found.push(thread);
            } else if n == 0 && !thread.active {
                found.push(self.read_again(&thread)?);
            } else {
                found.extend(self.read_alone(&thread, tid, stopper)?);
            }
        }
        Ok(found)
    }

    /// Reads a thread that is not stopped once more: it must be as it was.
    fn read_again(&mut self, thread: &ThreadStack) -> Result<ThreadStack, Failure> {
        let ids = (thread.interpreter, thread.thread_id);
        let again = self.reader.read_thread(ids.0, ids.1, self.interner, &mut || {});
        match again {
            Ok(again) if !again.active && !again.failed && again.stack == thread.stack => Ok(again),
            _ => Err(moved("a thread came by while it was read")),
        }
    }

    /// Reads a thread while it is stopped; None if it has ended.
    fn read_alone(
        &mut self,
        thread: &ThreadStack,
        tid: i32,
        stopper: &mut Stopper,
    ) -> Result<Option<ThreadStack>, Failure> {
        let stop = match stopper.stop_these(&[tid]) {
            Err(StopError::Gone) => return Ok(None),
            stop => stop.map_err(|refusal| refused(&refusal))?,
        };
        self.reader.set_deadline(Some(stop.deadline()));
        let mut stop = Some(stop);
        let (interpreter, thread_id) = (thread.interpreter, thread.thread_id);
        let read = self.reader.read_thread(interpreter, thread_id, self.interner, &mut || stop = None);
        drop(stop);
        self.reader.end_reading();
        self.threads.mark_stopped(tid);
        read.map(Some)
    }
}
