//! The frames of one thread, in whichever form a version of Python has them.

use crate::cpython::code_objects::CodePosition;
use crate::cpython::cpython_layout::{CurrentFrame, FrameLayout, Layout};
use crate::cpython::frame_objects::FrameObjectWalker;
use crate::cpython::frames::{FrameWalker, WalkError};
use crate::linux::memory::{Memory, Span};
use std::time::Instant;

/// Walks stacks of one version.
#[derive(Debug)]
pub enum StackWalker {
    Frames(Box<FrameWalker>),
    Objects(Box<FrameObjectWalker>),
}

impl StackWalker {
    pub fn new(layout: &Layout) -> StackWalker {
        match (layout.frame, layout.thread.current) {
            (
                FrameLayout::Objects(fields),
                CurrentFrame::Frame(current) | CurrentFrame::CFrame { pointer: current, .. },
            ) => StackWalker::Objects(Box::new(FrameObjectWalker::new(fields, current))),
            (FrameLayout::Stack(fields), _) => {
                StackWalker::Frames(Box::new(FrameWalker::new(layout, fields)))
            }
        }
    }

    /// Adds the frames of a thread to `positions`, given its PyThreadState. `remembered` is where frames were that are
    /// to be read ahead: on entry those of the last walk, on return those of this one.
    pub fn walk(
        &mut self,
        memory: &dyn Memory,
        thread: &[u8],
        check_call_entry: bool,
        deadline: Option<Instant>,
        remembered: &mut Vec<Span>,
        positions: &mut Vec<CodePosition>,
    ) -> Result<(), WalkError> {
        match self {
            StackWalker::Frames(walker) => {
                walker.walk(memory, thread, check_call_entry, deadline, remembered, positions)
            }
            StackWalker::Objects(walker) => walker.walk(memory, thread, deadline, remembered, positions),
        }
    }

    /// Makes room for what the next walks are likely to need, before anything is stopped.
    pub fn prepare(&mut self) {
        match self {
            StackWalker::Frames(walker) => walker.prepare(),
            StackWalker::Objects(_) => {}
        }
    }

    /// Frees buffers that a usual stack does not need.
    pub fn shrink(&mut self) {
        match self {
            StackWalker::Frames(walker) => walker.shrink(),
            StackWalker::Objects(walker) => walker.shrink(),
        }
    }

    /// A hash of all that was read for a walk that found a half-entered call.
    pub fn fingerprint(&self) -> u64 {
        match self {
            StackWalker::Frames(walker) => walker.fingerprint(),
            // There are no half-entered calls.
            StackWalker::Objects(_) => 0,
        }
    }
}
