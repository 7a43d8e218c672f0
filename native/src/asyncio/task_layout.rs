//! Offsets of asyncio's objects, and of generators, in CPython 3.11 to 3.13.
//!
//! They are offsetof of TaskObj (Modules/_asynciomodule.c), PyGenObject (Include/cpython/genobject.h; in 3.13
//! Include/internal/pycore_genobject.h) and `_PyInterpreterFrame` (Include/internal/pycore_frame.h) of 3.11.7, 3.12.1
//! and 3.13.0. The size of `_asyncio.Task` is compared with the process before any of them is used.

/// All offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskLayout {
    /// `tp_basicsize` of `_asyncio.Task`.
    pub size: usize,
    pub state: usize,
    /// `task_fut_waiter`; `task_coro` and `task_name` come next.
    pub waiter: usize,
    /// Of PyGenObject.
    pub frame_state: usize,
    pub frame: usize,
    /// `gi_frame_state` of a generator that waits for another one, and of one that runs.
    pub suspended: i8,
    pub executing: i8,
    /// Any suspended generator has that state: the argument of its next instruction tells whether it waits.
    pub needs_instruction: bool,
    /// Where an instance keeps its attributes.
    pub attributes: Attributes,
}

/// Where an instance keeps its attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attributes {
    /// Before the object: a pointer to the values, and one to the dict.
    Pointers,
    /// Before the object: a pointer to the dict or, with its lowest bit set, to the values less one.
    Tagged,
    /// Before the object: a pointer to the dict; without one the values are behind the object.
    Inline,
}

/// Of TaskObj.
pub const LOOP: usize = 16;
/// The bits of the state of a future.
pub const STATE_MASK: u8 = 3;
pub const PENDING: u8 = 0;
/// Of `_PyInterpreterFrame`: the size of its stack, an int, and its locals.
pub const STACK_TOP: usize = 64;
pub const LOCALS: usize = 72;
/// Of iterators over another awaitable: that.
pub const NEXT: usize = 16;
/// Of weak references.
pub const REFERENT: usize = 16;

impl TaskLayout {
    /// The layout of a Python 3.`minor`; None if it is not known.
    pub fn of(minor: u64) -> Option<TaskLayout> {
        let python_3_11 = TaskLayout {
            size: 176,
            state: 88,
            waiter: 128,
            frame_state: 75,
            frame: 80,
            suspended: -1,
            executing: 0,
            needs_instruction: true,
            attributes: Attributes::Pointers,
        };
        let python_3_12 =
            TaskLayout { frame_state: 67, frame: 72, attributes: Attributes::Tagged, ..python_3_11 };
        match minor {
            11 => Some(python_3_11),
            12 => Some(python_3_12),
            13 => Some(TaskLayout {
                size: 144,
                state: 96,
                waiter: 112,
                needs_instruction: false,
                attributes: Attributes::Inline,
                ..python_3_12
            }),
            _ => None,
        }
    }

    pub fn coroutine(&self) -> usize {
        self.waiter + 8
    }

    pub fn name(&self) -> usize {
        self.waiter + 16
    }
}
