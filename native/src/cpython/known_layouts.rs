//! Offsets of CPython 3.7 to 3.12, which do not describe their own structures.
//!
//! They are offsetof and sizeof of the headers of 3.7.16, 3.8.18, 3.9.18, 3.10.13, 3.11.7 and 3.12.1 on x86-64, and
//! the same on aarch64. `_PyRuntime`: Include/internal/pycore_runtime.h (3.8: pycore_pystate.h, 3.7: pystate.h).
//! PyInterpreterState: pycore_interp.h (the same before 3.9). PyThreadState: cpython/pystate.h (3.7: pystate.h).
//! PyFrameObject: cpython/frameobject.h (frameobject.h before 3.9). PyCodeObject: cpython/code.h (code.h before 3.9).

use crate::cpython::cpython_layout::{
    Code, CurrentFrame, Entry, Frame, FrameLayout, FrameObject, GilLayout, Interpreter, Layout, LineFormat,
    NativeId, Text, Thread, Types, LENGTH, OBJECT,
};

const TEXT: Text = Text { length: LENGTH, ascii: 40, compact: 56 };

pub const TYPES: Types = Types { name: 24, basicsize: 32, flags: 168, dictoffset: 288, cached_keys: 880 };

const INTERPRETER: Interpreter =
    Interpreter { next: 0, threads: 8, modules: 0, runtime: None, sys_dict: None, code_generation: None };

/// Of str objects up to 3.11, which have a `wchar_t` copy.
pub const WIDE_TEXT: Text = Text { length: LENGTH, ascii: 48, compact: 72 };

pub const PYTHON_3_7: Layout = Layout {
    interpreters: 24,
    gil: GilLayout::Runtime { holder: 1480, main: 1496, switches: 1288 },
    interpreter: Interpreter { modules: 40, sys_dict: Some(56), ..INTERPRETER },
    thread: Thread { native_id: NativeId::BehindPthread { serial: 272 }, size: 280, ..PYTHON_3_8.thread },
    code: Code {
        filename: 96,
        name: 104,
        qualname: 104,
        linetable: 112,
        firstlineno: 36,
        bytecode: Some(40),
        ..PYTHON_3_8.code
    },
    types: Types { cached_keys: 856, ..TYPES },
    ..PYTHON_3_8
};

pub const PYTHON_3_8: Layout = Layout {
    runtime: 0,
    interpreters: 32,
    object: OBJECT,
    gil: GilLayout::Runtime { holder: 1368, main: 1384, switches: 1176 },
    interpreter: Interpreter { modules: 56, sys_dict: Some(72), ..INTERPRETER },
    thread: Thread {
        next: 8,
        interpreter: 16,
        thread_id: 176,
        native_id: NativeId::BehindPthread { serial: 256 },
        is_bound: false,
        current: CurrentFrame::Frame(24),
        chunk: 0,
        size: 264,
    },
    frame: FrameLayout::Objects(FrameObject {
        previous: 24,
        code: 32,
        instruction: 104,
        instruction_unit: 1,
        size: 108,
    }),
    code: Code {
        filename: 104,
        name: 112,
        qualname: 112,
        linetable: 120,
        lines: LineFormat::Increments,
        firstlineno: 40,
        bytecode: Some(48),
        instructions: 0,
        has_version: false,
    },
    text: WIDE_TEXT,
    types: Types { cached_keys: 872, ..TYPES },
};

pub const PYTHON_3_9: Layout = Layout {
    gil: GilLayout::Runtime { holder: 568, main: 576, switches: 376 },
    interpreter: Interpreter { modules: 856, runtime: Some(16), sys_dict: Some(872), ..INTERPRETER },
    types: Types { cached_keys: 864, ..TYPES },
    ..PYTHON_3_8
};

pub const PYTHON_3_10: Layout = Layout {
    frame: FrameLayout::Objects(FrameObject {
        previous: 24,
        code: 32,
        instruction: 96,
        instruction_unit: 2,
        size: 100,
    }),
    code: Code { lines: LineFormat::Ranges, ..PYTHON_3_8.code },
    types: Types { cached_keys: 872, ..TYPES },
    ..PYTHON_3_9
};

pub const PYTHON_3_11: Layout = Layout {
    runtime: 0,
    interpreters: 40,
    object: OBJECT,
    gil: GilLayout::Runtime { holder: 576, main: 584, switches: 384 },
    interpreter: Interpreter { next: 0, threads: 16, modules: 888, runtime: Some(40), ..INTERPRETER },
    thread: Thread {
        next: 8,
        interpreter: 16,
        thread_id: 152,
        native_id: NativeId::Field(160),
        is_bound: false,
        current: CurrentFrame::CFrame { pointer: 56, frame: 8 },
        chunk: 296,
        size: 320,
    },
    frame: FrameLayout::Stack(Frame {
        code: 32,
        tag: 0,
        previous: 48,
        instruction: 56,
        owner: 69,
        first_foreign_owner: u8::MAX,
        entry: Entry::Flag(68),
        size: 72,
    }),
    code: Code {
        filename: 112,
        name: 120,
        qualname: 128,
        linetable: 136,
        lines: LineFormat::Locations,
        firstlineno: 72,
        bytecode: None,
        instructions: 184,
        has_version: false,
    },
    text: WIDE_TEXT,
    types: Types { cached_keys: 872, ..TYPES },
};

pub const PYTHON_3_12: Layout = Layout {
    runtime: 0,
    interpreters: 40,
    object: OBJECT,
    gil: GilLayout::Interpreter { pointer: 384, holder: 8, locked: 16, switches: 24 },
    interpreter: Interpreter { next: 0, threads: 72, modules: 944, runtime: Some(96), ..INTERPRETER },
    thread: Thread {
        next: 8,
        interpreter: 16,
        thread_id: 136,
        native_id: NativeId::Field(144),
        is_bound: false,
        current: CurrentFrame::CFrame { pointer: 56, frame: 0 },
        chunk: 232,
        size: 256,
    },
    frame: FrameLayout::Stack(Frame {
        code: 0,
        tag: 0,
        previous: 8,
        instruction: 56,
        owner: 70,
        first_foreign_owner: 3,
        entry: Entry::Foreign,
        size: 72,
    }),
    code: Code {
        filename: 112,
        name: 120,
        qualname: 128,
        linetable: 136,
        lines: LineFormat::Locations,
        firstlineno: 68,
        bytecode: None,
        instructions: 192,
        has_version: true,
    },
    text: TEXT,
    types: TYPES,
};

#[cfg(test)]
mod tests;
