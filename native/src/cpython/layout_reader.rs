//! Finding the layout of a process's memory.
//!
//! From 3.13 on `_PyRuntime` begins with `_Py_DebugOffsets` (Include/internal/pycore_debug_offsets.h; in 3.13
//! pycore_runtime.h). Offsets that it lacks are offsetof and sizeof of the headers of 3.13.0, 3.14.8 and 3.15.0, and of
//! 3.13.15 without a GIL.
//! Earlier versions are in `known_layouts`. These structures do not change within a minor version.

use crate::cpython::cpython_layout::{
    Code, CurrentFrame, Entry, Frame, FrameLayout, GilLayout, Interpreter, Layout, LineFormat, NativeId,
    Text, Thread, Types, OBJECT,
};
use crate::cpython::known_layouts::{
    PYTHON_3_10, PYTHON_3_11, PYTHON_3_12, PYTHON_3_7, PYTHON_3_8, PYTHON_3_9, TYPES,
};
use crate::linux::memory::{word, Fault, Memory};
use std::fmt;

const WORD: usize = size_of::<usize>();
const COOKIE: usize = usize::from_le_bytes(*b"xdebugpy");
/// Enough for any `_Py_DebugOffsets` known here.
const TABLE_WORDS: usize = 96;
/// Larger offsets are invalid: they bound the size of reads.
const LARGEST_OBJECT: usize = 4096;
const LARGEST_STATE: usize = 1 << 20;
/// Of PyInterpreterState: the pointer back to `_PyRuntime`.
const RUNTIME_3_13: usize = 7376;
const RUNTIME_3_14: usize = 7384;
const RUNTIME_3_15: usize = 7376;
/// Of PyHeapTypeObject.
const CACHED_KEYS_3_15: usize = 888;
/// Size of PyObject without a GIL.
const FREE_THREADED_OBJECT: usize = 32;
/// There, of PyThreadState.
const STATE_3_13: usize = 40;
/// A mutex has 40 bytes, or 48 with glibc on aarch64. Two of them belong to the GIL.
const MUTEX_SHIFTS: [usize; 2] = [0, 16];

/// Why the layout of a process could not be found.
#[derive(Debug)]
pub enum LayoutError {
    Version,
    /// It has no GIL, and its memory is not known.
    FreeThreaded,
    /// `_PyRuntime` is not where it should be, or has impossible values.
    Runtime,
    Fault(Fault),
}

/// Positions in `_Py_DebugOffsets`, in words.
struct DebugOffsets {
    interpreters: usize,
    next: usize,
    threads: usize,
    modules: usize,
    gil: usize,
    code_generation: Option<usize>,
    /// `next`, `interp` and `current_frame` of the thread state.
    thread: usize,
    /// `thread_id`, `native_thread_id` and `datastack_chunk` of it.
    thread_ids: usize,
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
    thread_ids: 24,
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
    thread_ids: 27,
    frame: 32,
    code: 40,
    type_name: 53,
    ascii: 80,
};

const DEBUG_OFFSETS_3_15: DebugOffsets =
    DebugOffsets { thread_ids: 30, frame: 40, code: 48, type_name: 61, ascii: 92, ..DEBUG_OFFSETS_3_14 };

impl Layout {
    /// The layout of a process that runs Python 3.`minor` and has its `_PyRuntime` at an address.
    pub fn read(memory: &dyn Memory, minor: u64, runtime: usize) -> Result<Layout, LayoutError> {
        let mut layout = match minor {
            _ if WORD != 8 => return Err(LayoutError::Version),
            7 => Layout { runtime, ..PYTHON_3_7 },
            8 => Layout { runtime, ..PYTHON_3_8 },
            9 => Layout { runtime, ..PYTHON_3_9 },
            10 => Layout { runtime, ..PYTHON_3_10 },
            11 => Layout { runtime, ..PYTHON_3_11 },
            12 => Layout { runtime, ..PYTHON_3_12 },
            13..=15 => Layout::from_debug_offsets(memory, minor, runtime)?,
            _ => return Err(LayoutError::Version),
        };
        // The list of interpreters is one, and they agree on where they belong to.
        let interpreters = layout.interpreters(memory)?;
        let Some(&main) = interpreters.first() else { return Err(LayoutError::Runtime) };
        if let Some(at) = layout.interpreter.runtime {
            for interpreter in interpreters {
                if memory.word(interpreter.wrapping_add(at))? != runtime {
                    return Err(LayoutError::Runtime);
                }
            }
        }
        layout.find_holder(memory, main)?;
        Ok(layout)
    }

    /// The address of `_PyRuntime` as an interpreter state has it.
    pub fn runtime_address(
        memory: &dyn Memory,
        minor: u64,
        interpreter: usize,
    ) -> Result<usize, LayoutError> {
        let at = match minor {
            9 => PYTHON_3_9.interpreter.runtime,
            10 => PYTHON_3_10.interpreter.runtime,
            11 => PYTHON_3_11.interpreter.runtime,
            12 => PYTHON_3_12.interpreter.runtime,
            13 => Some(RUNTIME_3_13),
            14 => Some(RUNTIME_3_14),
            15 => Some(RUNTIME_3_15),
            _ => None,
        };
        Ok(memory.word(interpreter.wrapping_add(at.ok_or(LayoutError::Version)?))?)
    }

    /// Corrects where the holder of the only GIL is: the C library's mutexes lie before it and are not of one size.
    /// The main interpreter, which comes behind it, proves it.
    fn find_holder(&mut self, memory: &dyn Memory, main_interpreter: usize) -> Result<(), LayoutError> {
        let GilLayout::Runtime { holder, main, .. } = &mut self.gil else { return Ok(()) };
        for shift in MUTEX_SHIFTS {
            if memory.word(self.runtime.wrapping_add(*main + shift))? == main_interpreter {
                (*holder, *main) = (*holder + shift, *main + shift);
                return Ok(());
            }
        }
        Err(LayoutError::Runtime)
    }

    fn from_debug_offsets(memory: &dyn Memory, minor: u64, runtime: usize) -> Result<Layout, LayoutError> {
        let (fields, runtime_of_interpreter, cached_keys) = match minor {
            13 => (DEBUG_OFFSETS_3_13, RUNTIME_3_13, TYPES.cached_keys),
            14 => (DEBUG_OFFSETS_3_14, RUNTIME_3_14, TYPES.cached_keys),
            _ => (DEBUG_OFFSETS_3_15, RUNTIME_3_15, CACHED_KEYS_3_15),
        };
        let mut table = [0; TABLE_WORDS * WORD];
        memory.read(runtime, &mut table)?;
        let value = |field: usize| word(&table, field * WORD);
        let [cookie, version, free_threaded] = [0, 1, 2].map(value);
        if cookie != COOKIE || version >> 16 != 0x300 + minor as usize {
            return Err(LayoutError::Runtime);
        }
        let has_gil = free_threaded == 0;
        if !has_gil && minor != 13 {
            return Err(LayoutError::FreeThreaded);
        }
        let size = if has_gil { OBJECT } else { FREE_THREADED_OBJECT };
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
            object: size,
            gil: match has_gil {
                true => GilLayout::Interpreter {
                    pointer: state(fields.gil)?,
                    locked: in_gil(fields.gil + 3)?,
                    holder: in_gil(fields.gil + 4)?,
                    switches: in_gil(fields.gil + 3)? + WORD,
                },
                false => GilLayout::FreeThreaded { state: STATE_3_13 },
            },
            interpreter: Interpreter {
                next: state(fields.next)?,
                threads: state(fields.threads)?,
                modules: state(fields.modules)?,
                runtime: Some(runtime_of_interpreter),
                sys_dict: None,
                code_generation: fields.code_generation.map(state).transpose()?,
            },
            thread: Thread {
                next: object(fields.thread)?,
                interpreter: object(fields.thread + 1)?,
                current: CurrentFrame::Frame(object(fields.thread + 2)?),
                thread_id: object(fields.thread_ids)?,
                native_id: NativeId::Field(object(fields.thread_ids + 1)?),
                is_bound: true,
                chunk: object(fields.thread_ids + 2)?,
                size: (0..3)
                    .flat_map(|n| [value(fields.thread + n), value(fields.thread_ids + n)])
                    .max()
                    .unwrap_or(0)
                    + 3 * WORD,
            },
            frame: FrameLayout::Stack(Frame {
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
            }),
            code: Code {
                filename: object(fields.code)?,
                name: object(fields.code + 1)?,
                qualname: object(fields.code + 2)?,
                linetable: object(fields.code + 3)?,
                lines: LineFormat::Locations,
                firstlineno: object(fields.code + 4)?,
                bytecode: None,
                instructions: object(fields.code + 8)?,
                has_version: true,
            },
            text: Text {
                length: size,
                ascii: object(fields.ascii)?,
                compact: object(fields.ascii)? + 2 * WORD,
            },
            // Asyncio tasks need the others, and are not read without a GIL.
            types: Types { name: object(fields.type_name)?, cached_keys, ..TYPES },
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
            LayoutError::Version => f.write_str("its memory is only known for 64-bit Python 3.7 to 3.15"),
            LayoutError::FreeThreaded => {
                f.write_str("it is a free-threaded build, and of these only Python 3.13 can be read")
            }
            LayoutError::Runtime => f.write_str("its _PyRuntime cannot be found"),
            LayoutError::Fault(fault) => fault.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::memory::MemoryImage;

    #[test]
    fn of_free_threaded_builds_only_python_3_13_is_known() {
        let read = |minor: usize| {
            let mut table = vec![0; TABLE_WORDS];
            table[..3].copy_from_slice(&[COOKIE, (0x300 + minor) << 16, 1]);
            let bytes = table.into_iter().flat_map(usize::to_ne_bytes).collect();
            let memory = MemoryImage { pieces: [(4096, bytes)].into() };
            Layout::from_debug_offsets(&memory, minor as u64, 4096)
        };
        assert!(matches!(read(14), Err(LayoutError::FreeThreaded)));
        let layout = read(13).unwrap();
        assert!(!layout.has_gil() && layout.object == FREE_THREADED_OBJECT);
    }
}
