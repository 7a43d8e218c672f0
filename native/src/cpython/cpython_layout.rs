//! Offsets of CPython's structures in memory: CPython 3.11 to 3.14, 64-bit, with a GIL.
//!
//! From 3.13 on `_PyRuntime` begins with `_Py_DebugOffsets` (Include/internal/pycore_debug_offsets.h; in 3.13
//! pycore_runtime.h). Offsets that it lacks, and all of 3.11 and 3.12, are offsetof and sizeof of the headers of
//! 3.11.7, 3.12.1, 3.13.0 and 3.14.8. These structures do not change within a minor version.

use crate::linux::memory::{word, Fault, Memory, Span};
use std::fmt;

/// All offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Address of `_PyRuntime`.
    pub runtime: usize,
    /// Of `_PyRuntime`: the newest interpreter.
    pub interpreters: usize,
    pub gil: GilLayout,
    pub interpreter: Interpreter,
    pub thread: Thread,
    pub frame: Frame,
    pub code: Code,
    pub text: Text,
    pub types: Types,
}

/// Where the holder of the GIL is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GilLayout {
    /// Of `_PyRuntime`: the thread state that holds the one GIL there is, and how often it was given to another.
    Runtime { holder: usize, switches: usize },
    /// Of PyInterpreterState: a pointer to a `_gil_runtime_state`, which has the thread state that held it last,
    /// whether it is held, and how often it was given to another.
    Interpreter { pointer: usize, holder: usize, locked: usize, switches: usize },
}

/// Of PyInterpreterState.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interpreter {
    pub next: usize,
    pub threads: usize,
    pub modules: usize,
    /// Counts the code objects that were freed.
    pub code_generation: Option<usize>,
}

/// Of PyThreadState.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    pub next: usize,
    pub interpreter: usize,
    pub thread_id: usize,
    pub native_id: usize,
    pub current: CurrentFrame,
    /// Newest chunk of its data stack; top and limit of it come next.
    pub chunk: usize,
    /// As much of it as has all of the above.
    pub size: usize,
}

/// Where a thread's newest frame is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurrentFrame {
    /// Of PyThreadState.
    Frame(usize),
    /// Of PyThreadState: a pointer to a `_PyCFrame`, which has the frame and, next to it, the `_PyCFrame` before.
    CFrame { pointer: usize, frame: usize },
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
    pub firstlineno: usize,
    pub instructions: usize,
    /// Has a `co_version`, which no two code objects share, between `firstlineno` and `linetable`.
    pub has_version: bool,
}

/// Of str objects; bytes and int objects are the same in all versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
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

/// Of every object.
pub const TYPE: usize = 8;
/// Of objects with a size of their own.
pub const SIZE: usize = 16;
/// Of bytes objects.
pub const BYTES: usize = 32;
/// Of str objects.
pub const LENGTH: usize = 16;
pub const HASH: usize = 24;
pub const STATE: usize = 32;

pub const OWNED_BY_THREAD: u8 = 0;
pub const INSTRUCTION_BYTES: usize = 2;

const WORD: usize = size_of::<usize>();
const COOKIE: usize = usize::from_le_bytes(*b"xdebugpy");
/// Enough for any `_Py_DebugOffsets` known here.
const TABLE_WORDS: usize = 96;
/// Larger offsets are invalid: they bound the size of reads.
const LARGEST_OBJECT: usize = 4096;
const LARGEST_STATE: usize = 1 << 20;
/// The most interpreters that are followed.
pub const MAX_INTERPRETERS: usize = 1024;

/// Why the layout of a process could not be found.
#[derive(Debug)]
pub enum LayoutError {
    Version,
    FreeThreaded,
    /// `_PyRuntime` is not where it should be, or has impossible values.
    Runtime,
    Fault(Fault),
}

const TEXT: Text = Text { ascii: 40, compact: 56 };

const TYPES: Types = Types { name: 24, basicsize: 32, flags: 168, dictoffset: 288, cached_keys: 880 };

const PYTHON_3_11: Layout = Layout {
    runtime: 0,
    interpreters: 40,
    gil: GilLayout::Runtime { holder: if cfg!(target_arch = "aarch64") { 592 } else { 576 }, switches: 384 },
    interpreter: Interpreter { next: 0, threads: 16, modules: 888, code_generation: None },
    thread: Thread {
        next: 8,
        interpreter: 16,
        thread_id: 152,
        native_id: 160,
        current: CurrentFrame::CFrame { pointer: 56, frame: 8 },
        chunk: 296,
        size: 320,
    },
    frame: Frame {
        code: 32,
        tag: 0,
        previous: 48,
        instruction: 56,
        owner: 69,
        first_foreign_owner: u8::MAX,
        entry: Entry::Flag(68),
        size: 72,
    },
    code: Code {
        filename: 112,
        name: 120,
        qualname: 128,
        linetable: 136,
        firstlineno: 72,
        instructions: 184,
        has_version: false,
    },
    text: Text { ascii: 48, compact: 72 },
    types: Types { cached_keys: 872, ..TYPES },
};

const PYTHON_3_12: Layout = Layout {
    runtime: 0,
    interpreters: 40,
    gil: GilLayout::Interpreter { pointer: 384, holder: 8, locked: 16, switches: 24 },
    interpreter: Interpreter { next: 0, threads: 72, modules: 944, code_generation: None },
    thread: Thread {
        next: 8,
        interpreter: 16,
        thread_id: 136,
        native_id: 144,
        current: CurrentFrame::CFrame { pointer: 56, frame: 0 },
        chunk: 232,
        size: 256,
    },
    frame: Frame {
        code: 0,
        tag: 0,
        previous: 8,
        instruction: 56,
        owner: 70,
        first_foreign_owner: 3,
        entry: Entry::Foreign,
        size: 72,
    },
    code: Code {
        filename: 112,
        name: 120,
        qualname: 128,
        linetable: 136,
        firstlineno: 68,
        instructions: 192,
        has_version: true,
    },
    text: TEXT,
    types: TYPES,
};

/// Positions in `_Py_DebugOffsets`, in words.
struct DebugOffsets {
    interpreters: usize,
    next: usize,
    threads: usize,
    modules: usize,
    gil: usize,
    code_generation: Option<usize>,
    /// `next`; the rest of the thread state's follow.
    thread: usize,
    /// `previous`; the rest of the frame's follow.
    frame: usize,
    /// `filename`; the rest of the code object's follow.
    code: usize,
    type_name: usize,
    ascii: usize,
}

const DEBUG_OFFSETS_3_13: DebugOffsets = DebugOffsets {
    interpreters: 5,
    next: 8,
    threads: 9,
    modules: 11,
    gil: 14,
    code_generation: None,
    thread: 21,
    frame: 29,
    code: 35,
    type_name: 47,
    ascii: 70,
};

const DEBUG_OFFSETS_3_14: DebugOffsets = DebugOffsets {
    interpreters: 5,
    next: 8,
    threads: 9,
    modules: 12,
    gil: 15,
    code_generation: Some(20),
    thread: 24,
    frame: 32,
    code: 40,
    type_name: 53,
    ascii: 80,
};

impl Layout {
    /// The layout of a process that runs Python 3.`minor` and has its `_PyRuntime` at an address.
    pub fn read(memory: &dyn Memory, minor: u64, runtime: usize) -> Result<Layout, LayoutError> {
        let layout = match minor {
            _ if WORD != 8 => return Err(LayoutError::Version),
            11 => Layout { runtime, ..PYTHON_3_11 },
            12 => Layout { runtime, ..PYTHON_3_12 },
            13 | 14 => Layout::from_debug_offsets(memory, minor, runtime)?,
            _ => return Err(LayoutError::Version),
        };
        // The list of interpreters is one, and they agree on where they belong to.
        let interpreters = layout.interpreters(memory)?;
        if interpreters.is_empty() {
            return Err(LayoutError::Runtime);
        }
        for interpreter in interpreters {
            if Layout::runtime_address(memory, minor, interpreter)? != runtime {
                return Err(LayoutError::Runtime);
            }
        }
        Ok(layout)
    }

    /// The address of `_PyRuntime` as an interpreter state has it.
    pub fn runtime_address(
        memory: &dyn Memory,
        minor: u64,
        interpreter: usize,
    ) -> Result<usize, LayoutError> {
        let runtime = match minor {
            11 => 40,
            12 => 96,
            13 => 7376,
            14 => 7384,
            _ => return Err(LayoutError::Version),
        };
        Ok(memory.word(interpreter.wrapping_add(runtime))?)
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

    fn from_debug_offsets(memory: &dyn Memory, minor: u64, runtime: usize) -> Result<Layout, LayoutError> {
        let fields = if minor == 13 { DEBUG_OFFSETS_3_13 } else { DEBUG_OFFSETS_3_14 };
        let mut table = [0; TABLE_WORDS * WORD];
        memory.read(runtime, &mut table)?;
        let value = |field: usize| word(&table, field * WORD);
        let [cookie, version, free_threaded] = [0, 1, 2].map(value);
        if cookie != COOKIE || version >> 16 != 0x300 + minor as usize {
            return Err(LayoutError::Runtime);
        }
        if free_threaded != 0 {
            return Err(LayoutError::FreeThreaded);
        }
        let bounded = |field: usize, largest: usize| match value(field) {
            offset if offset < largest => Ok(offset),
            _ => Err(LayoutError::Runtime),
        };
        let object = |field| bounded(field, LARGEST_OBJECT);
        let state = |field| bounded(field, LARGEST_STATE);
        // The table has offsets in the interpreter state, of a GIL that interpreters may share.
        let in_gil = |field| match state(field)?.checked_sub(state(fields.gil + 1)?) {
            Some(offset) if offset < LARGEST_OBJECT => Ok(offset),
            _ => Err(LayoutError::Runtime),
        };
        Ok(Layout {
            runtime,
            interpreters: state(fields.interpreters)?,
            gil: GilLayout::Interpreter {
                pointer: state(fields.gil)?,
                locked: in_gil(fields.gil + 3)?,
                holder: in_gil(fields.gil + 4)?,
                switches: in_gil(fields.gil + 3)? + WORD,
            },
            interpreter: Interpreter {
                next: state(fields.next)?,
                threads: state(fields.threads)?,
                modules: state(fields.modules)?,
                code_generation: fields.code_generation.map(state).transpose()?,
            },
            thread: Thread {
                next: object(fields.thread)?,
                interpreter: object(fields.thread + 1)?,
                current: CurrentFrame::Frame(object(fields.thread + 2)?),
                thread_id: object(fields.thread + 3)?,
                native_id: object(fields.thread + 4)?,
                chunk: object(fields.thread + 5)?,
                size: (0..6).map(|n| value(fields.thread + n)).max().unwrap_or(0) + 3 * WORD,
            },
            frame: Frame {
                previous: object(fields.frame)?,
                code: object(fields.frame + 1)?,
                // Py_TAG_BITS of a _PyStackRef.
                tag: if minor == 13 { 0 } else { 3 },
                instruction: object(fields.frame + 2)?,
                owner: object(fields.frame + 4)?,
                first_foreign_owner: 3,
                entry: Entry::Linked,
                size: [WORD, WORD, WORD, 0, 1]
                    .iter()
                    .enumerate()
                    .map(|(n, length)| value(fields.frame + n) * usize::from(*length > 0) + length)
                    .max()
                    .unwrap_or(0),
            },
            code: Code {
                filename: object(fields.code)?,
                name: object(fields.code + 1)?,
                qualname: object(fields.code + 2)?,
                linetable: object(fields.code + 3)?,
                firstlineno: object(fields.code + 4)?,
                instructions: object(fields.code + 8)?,
                has_version: true,
            },
            text: Text { ascii: object(fields.ascii)?, compact: object(fields.ascii)? + 2 * WORD },
            types: Types { name: object(fields.type_name)?, ..TYPES },
        })
    }
}

impl From<Fault> for LayoutError {
    fn from(fault: Fault) -> LayoutError {
        LayoutError::Fault(fault)
    }
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutError::Version => f.write_str("its memory is only known for 64-bit Python 3.11 to 3.14"),
            LayoutError::FreeThreaded => f.write_str("it has no GIL (a free-threaded build)"),
            LayoutError::Runtime => f.write_str("its _PyRuntime cannot be found"),
            LayoutError::Fault(fault) => fault.fmt(f),
        }
    }
}
