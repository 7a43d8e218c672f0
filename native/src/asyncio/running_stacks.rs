//! The stacks of running tasks, down to the function that runs.
//!
//! A coroutine that runs is a frame of its thread. The newer frames of that thread are what it called or awaits.

use crate::asyncio::task_counts::TaskState;
use crate::asyncio::task_layout::TaskLayout;
use crate::asyncio::task_listing::Listing;
use crate::asyncio::task_reader::slow;
use crate::cpython::call_entry::CallEntry;
use crate::cpython::cpython_layout::{FrameLayout, Layout};
use crate::cpython::frames::{FrameWalker, WalkError};
use crate::cpython::thread_states::ThreadStates;
use crate::linux::memory::Memory;
use crate::stacks::stack_reader::Failure;
use std::time::Instant;

/// Walks the threads that run tasks.
#[derive(Debug)]
pub struct RunningStacks {
    walker: FrameWalker,
    /// Of a coroutine: its frame.
    frame: usize,
    /// The thread states that ran tasks at the last reading.
    threads: Vec<usize>,
    call_entry: CallEntry,
}

impl RunningStacks {
    /// None if frames do not lie in coroutines.
    pub fn new(layout: &Layout, at: TaskLayout) -> Option<RunningStacks> {
        let FrameLayout::Stack(fields) = layout.frame else { return None };
        let walker = FrameWalker::new(layout, fields);
        Some(RunningStacks { walker, frame: at.frame, threads: Vec::new(), call_entry: CallEntry::default() })
    }

    /// Makes room, before anything is stopped.
    pub fn prepare(&mut self) {
        self.walker.prepare();
    }

    pub fn shrink(&mut self) {
        self.walker.shrink();
    }

    /// Adds the newer frames of its thread to the stack of each running task. One that no thread runs, as another
    /// greenlet does, keeps its root.
    ///
    /// # Errors
    /// If the thread that holds the GIL is entering a call, or there is no time left.
    pub fn extend(
        &mut self,
        memory: &dyn Memory,
        listing: &mut Listing,
        states: &ThreadStates,
        holder: usize,
        deadline: Instant,
    ) -> Result<(), Failure> {
        let running = |state| state == TaskState::Running;
        let tasks = listing.tasks.iter_mut().filter(|task| running(task.state));
        let mut missing: Vec<_> = tasks.map(|task| (task.coroutine + self.frame, task)).collect();
        let known = std::mem::take(&mut self.threads);
        let mut threads: Vec<(usize, &[u8])> = states.iter().collect();
        threads.sort_by_key(|(thread, _)| (*thread != holder, !known.contains(thread)));
        for (thread, state) in threads {
            if missing.is_empty() {
                break;
            }
            self.walker.roots.clear();
            self.walker.roots.extend(missing.iter().map(|&(root, _)| (root, None)));
            let mut positions = Vec::new();
            let holds = thread == holder;
            let check = holds && !self.call_entry.is_persistent();
            match self.walker.walk(memory, state, check, Some(deadline), &mut Vec::new(), &mut positions) {
                Ok(()) if holds => self.call_entry.reset(),
                Err(WalkError::CallEntry) => {
                    self.call_entry.record(self.walker.fingerprint());
                    return Err(Failure::transient("read", &"a call was being entered"));
                }
                Err(WalkError::Timeout) => return Err(slow()),
                _ => {}
            }
            let roots = &self.walker.roots;
            let before = missing.len();
            missing.retain_mut(|(root, task)| match roots.iter().find(|known| known.0 == *root) {
                Some(&(_, Some(count))) => {
                    task.chain.positions = positions[..count].iter().rev().copied().collect();
                    false
                }
                _ => true,
            });
            if missing.len() < before {
                self.threads.push(thread);
            }
        }
        Ok(())
    }
}
