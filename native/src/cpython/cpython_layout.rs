//! Offsets of CPython's structures in memory: CPython 3.7 to 3.15, and 3.13 without a GIL; 64-bit.
//!
//! `known_layouts` has them of some versions, `layout_reader` finds those of a process.

use crate::linux::memory::{int, word, Fault, Memory, Span};

/// All offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Address of `_PyRuntime`.
    pub runtime: usize,
    /// Of `_PyRuntime`: the newest interpreter.
    pub interpreters: usize,
    /// Size of PyObject. Its last word is the type; objects with a size of their own have that next.
    pub object: usize,
    pub gil: GilLayout,
    pub interpreter: Interpreter,
    pub thread: Thread,
    pub frame: FrameLayout,
    pub code: Code,
    pub text: Text,
    pub types: Types,
}

/// Where the holder of the GIL is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GilLayout {
    /// Of `_PyRuntime`: the thread state that holds the one GIL there is, the main interpreter, and how often the GIL
    /// was given to another.
    Runtime { holder: usize, main: usize, switches: usize },
    /// Of PyInterpreterState: a pointer to a `_gil_runtime_state`, which has the thread state that held it last,
    /// whether it is held, and how often it was given to another.
    Interpreter { pointer: usize, holder: usize, locked: usize, switches: usize },
    /// A free-threaded build needs none. Of PyThreadState: whether it is attached, and may run Python code.
    FreeThreaded { state: usize },
}

/// Of PyInterpreterState.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interpreter {
    pub next: usize,
    pub threads: usize,
    pub modules: usize,
    /// The pointer back to `_PyRuntime`.
    pub runtime: Option<usize>,
    /// The dict of the module `sys`, where the version is not found otherwise.
    pub sys_dict: Option<usize>,
    /// Counts the code objects that were freed.
    pub code_generation: Option<usize>,
}

/// Of PyThreadState.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    pub next: usize,
    pub interpreter: usize,
    pub thread_id: usize,
    pub native_id: NativeId,
    /// Since 3.13 each state names the thread that runs it. Before, states of interpreters other than the main one may
    /// name the thread that made them.
    pub is_bound: bool,
    pub current: CurrentFrame,
    /// Newest chunk of its data stack; top and limit of it come next. Up to 3.10 there is none.
    pub chunk: usize,
    /// As much of it as has all of the above.
    pub size: usize,
}

/// Where the kernel's id of a thread is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NativeId {
    /// Of PyThreadState.
    Field(usize),
    /// Where the C library keeps it, behind the pthread_t. Of PyThreadState: a number that no two of them share.
    BehindPthread { serial: usize },
}

/// Where a thread's newest frame is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurrentFrame {
    /// Of PyThreadState: it.
    Frame(usize),
    /// Of PyThreadState: a pointer to a `_PyCFrame`, which has the frame and, next to it, the `_PyCFrame` before.
    CFrame { pointer: usize, frame: usize },
}

/// What a thread's frames are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameLayout {
    /// Most lie side by side on the thread's data stack.
    Stack(Frame),
    /// Objects on the heap, up to 3.10.
    Objects(FrameObject),
}

/// Of `_PyInterpreterFrame`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub code: usize,
    /// Bits of the pointer to the code that are no part of it.
    pub tag: usize,
    pub previous: usize,
    /// The instruction being run or, up to 3.12, the one before the next.
    pub instruction: usize,
    pub owner: usize,
    /// Owners from this one on are not Python functions: C code called the newer frames.
    pub first_foreign_owner: u8,
    pub entry: Entry,
    /// As much of it as has all of the above.
    pub size: usize,
}

/// Of PyFrameObject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameObject {
    pub previous: usize,
    pub code: usize,
    /// The instruction being run, a C int; -1 before the first.
    pub instruction: usize,
    /// Bytes of the code by which that counts.
    pub instruction_unit: usize,
    /// As much of it as has all of the above.
    pub size: usize,
}

/// How calls are linked where that takes several steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The oldest frame of a `_PyCFrame` has `is_entry` at this offset.
    Flag(usize),
    /// The oldest frame of a `_PyCFrame` is a foreign one.
    Foreign,
    /// In one step.
    Linked,
}

/// Of PyCodeObject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    pub filename: usize,
    pub name: usize,
    pub qualname: usize,
    pub linetable: usize,
    pub lines: LineFormat,
    pub firstlineno: usize,
    /// The bytes object that holds the instructions, where they are not part of the code object.
    pub bytecode: Option<usize>,
    /// The first instruction; 0 where they are not part of the code object.
    pub instructions: usize,
    /// Has a `co_version`, which no two code objects share, between `firstlineno` and `linetable`.
    pub has_version: bool,
}

/// The format of a table of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFormat {
    /// `co_lnotab`, up to 3.9.
    Increments,
    /// `co_linetable` of 3.10.
    Ranges,
    /// `co_linetable` since 3.11.
    Locations,
}

/// Of str objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    pub length: usize,
    /// Size of PyASCIIObject: characters that are all ASCII come next.
    pub ascii: usize,
    /// Size of PyCompactUnicodeObject: characters come next, or a pointer to them.
    pub compact: usize,
}

/// Of PyTypeObject and PyHeapTypeObject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Types {
    pub name: usize,
    pub basicsize: usize,
    pub flags: usize,
    pub dictoffset: usize,
    pub cached_keys: usize,
}

/// Size of PyObject where there is a GIL, and its type.
pub const OBJECT: usize = 16;
pub const TYPE: usize = 8;
/// There, of objects with a size of their own, and of str objects.
pub const SIZE: usize = OBJECT;
pub const LENGTH: usize = OBJECT;
/// Of bytes objects, from their size on.
pub const BYTES_FROM_SIZE: usize = 16;
/// Of str objects, from their length on.
pub const STATE_FROM_LENGTH: usize = 16;
/// A `tstate.state` (Include/cpython/pystate.h).
const ATTACHED: i32 = 1;

pub const OWNED_BY_THREAD: u8 = 0;
pub const INSTRUCTION_BYTES: usize = 2;

const WORD: usize = size_of::<usize>();
/// The most interpreters that are followed.
pub const MAX_INTERPRETERS: usize = 1024;

impl Layout {
    pub fn has_gil(&self) -> bool {
        !matches!(self.gil, GilLayout::FreeThreaded { .. })
    }

    /// Whether a thread with this PyThreadState may run Python code. With a GIL, the holder may.
    pub fn is_attached(&self, state: &[u8]) -> bool {
        match self.gil {
            GilLayout::FreeThreaded { state: at } => int(state, at) == ATTACHED,
            _ => true,
        }
    }

    /// Addresses of all interpreters, the oldest (the main one) first.
    pub fn interpreters(&self, memory: &dyn Memory) -> Result<Vec<usize>, Fault> {
        let mut found = Vec::new();
        let mut next = memory.word(self.runtime.wrapping_add(self.interpreters))?;
        while next != 0 && found.len() < MAX_INTERPRETERS {
            found.push(next);
            next = memory.word(next.wrapping_add(self.interpreter.next))?;
        }
        found.reverse();
        Ok(found)
    }

    /// The spans that show whether these, the oldest first, still are all interpreters.
    pub fn links<'a>(&self, interpreters: &'a [usize]) -> impl Iterator<Item = Span> + 'a {
        let (first, next) = (self.runtime.wrapping_add(self.interpreters), self.interpreter.next);
        let links = interpreters.iter().rev().map(move |interpreter| interpreter.wrapping_add(next));
        std::iter::once(first).chain(links).map(|address| Span { address, length: WORD })
    }

    /// Whether they are, given the bytes of these spans.
    pub fn are_linked(interpreters: &[usize], links: &[u8]) -> bool {
        interpreters.iter().rev().chain([&0]).enumerate().all(|(n, &to)| word(links, n * WORD) == to)
    }
}

impl Thread {
    /// What tells the kernel's id of a thread: that id, or its pthread_t.
    pub fn kernel_thread(&self) -> usize {
        match self.native_id {
            NativeId::Field(at) => at,
            NativeId::BehindPthread { .. } => self.thread_id,
        }
    }

    /// What differs between two threads that had a state at the same address.
    pub fn identity(&self) -> usize {
        match self.native_id {
            NativeId::Field(at) | NativeId::BehindPthread { serial: at } => at,
        }
    }
}
