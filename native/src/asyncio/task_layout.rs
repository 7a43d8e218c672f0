//! Offsets of asyncio's objects, and of generators, in CPython 3.11 to 3.15.
//!
//! They are offsetof of TaskObj (Modules/_asynciomodule.c), PyGenObject (Include/cpython/genobject.h; in 3.13
//! Include/internal/pycore_genobject.h) and `_PyInterpreterFrame` (Include/internal/pycore_frame.h) of 3.11.7, 3.12.1,
//! 3.13.0, 3.14.8 and 3.15.0; those of lists are from the section `.AsyncioDebug` of `_asyncio`, which in some builds
//! is in the interpreter. The size of `_asyncio.Task` is compared with the process before any of them is used.

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
    /// `gi_frame_state` of a generator that waits for another one.
    pub suspended: i8,
    /// Any suspended generator has that state: the argument of its next instruction tells whether it waits.
    pub needs_instruction: bool,
    /// Of `_PyInterpreterFrame`: its locals.
    pub locals: usize,
    /// From the top of the stack of such a generator down to what it waits for.
    pub awaited: usize,
    /// The top of a stack is a pointer, and its entries have tags in their lowest bits.
    pub has_stack_references: bool,
    /// Where lists of tasks are.
    pub lists: Option<TaskLists>,
    /// Where an instance keeps its attributes.
    pub attributes: Attributes,
}

/// Where lists of tasks are, since 3.14.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskLists {
    /// Of TaskObj.
    pub node: usize,
    /// Of PyInterpreterState.
    pub interpreter_head: usize,
    /// Of `_PyThreadStateImpl`.
    pub thread_head: usize,
    pub running: usize,
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
/// Of `_PyInterpreterFrame`: the size of its stack, an int, or a pointer to its top.
pub const STACK_TOP: usize = 64;
/// The tags of an entry of a stack.
pub const TAGS: usize = 3;
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
            needs_instruction: true,
            locals: 72,
            awaited: 8,
            has_stack_references: false,
            lists: None,
            attributes: Attributes::Pointers,
        };
        let python_3_12 =
            TaskLayout { frame_state: 67, frame: 72, attributes: Attributes::Tagged, ..python_3_11 };
        let python_3_13 = TaskLayout {
            size: 144,
            state: 96,
            waiter: 112,
            needs_instruction: false,
            attributes: Attributes::Inline,
            ..python_3_12
        };
        let python_3_14 = TaskLayout {
            size: 168,
            state: 104,
            waiter: 120,
            locals: 80,
            has_stack_references: true,
            lists: Some(TaskLists { node: 152, interpreter_head: 10880, thread_head: 880, running: 872 }),
            ..python_3_13
        };
        match minor {
            11 => Some(python_3_11),
            12 => Some(python_3_12),
            13 => Some(python_3_13),
            14 => Some(python_3_14),
            15 => Some(TaskLayout {
                suspended: 2,
                awaited: 16,
                lists: Some(TaskLists {
                    node: 152,
                    interpreter_head: 10856,
                    thread_head: 1048,
                    running: 1032,
                }),
                ..python_3_14
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
