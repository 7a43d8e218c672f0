//! A single reading of a process by a given reader, to compare readers.

use crate::cpython::cpython_reader::CpythonReader;
use crate::stacks::frame_text::Call;
use crate::stacks::stack_interner::StackInterner;
use crate::stacks::stack_reader::{Failure, StackReader};
use py_spy::config::LockingStrategy;
use py_spy::{Config, PythonSpy};

/// More than this are not expected of one process.
const MAX_STACKS: usize = 1 << 20;

/// The stacks of all threads, by pthread, read by the CPython reader or the py-spy crate.
pub fn snapshot(pid: i32, use_cpython_reader: bool, max_depth: usize) -> Result<Vec<(u64, String)>, Failure> {
    let mut interner = StackInterner::new(MAX_STACKS);
    let mut found = Vec::new();
    if use_cpython_reader {
        let mut reader = CpythonReader::attach(pid, None, max_depth)?;
        for interpreter in reader.interpreters()? {
            let stacks = reader.read(interpreter, &mut |_| true, &mut interner)?;
            found.extend(stacks.threads.iter().map(|thread| (thread.thread_id, thread.stack)));
        }
    } else {
        let config = Config { blocking: LockingStrategy::NonBlocking, ..Config::default() };
        let spy = PythonSpy::new(pid, &config);
        let traces = spy.and_then(|mut spy| spy.get_stack_traces());
        for trace in traces.map_err(|error| Failure::new("other", &error))? {
            let frames: Vec<_> = trace
                .frames
                .iter()
                .map(|frame| {
                    let file = frame.short_filename.as_ref().unwrap_or(&frame.filename);
                    interner.intern_frame(&Call { function: &frame.name, file, line: frame.line })
                })
                .collect();
            found.push((trace.thread_id, interner.intern_stack(&frames, max_depth).0));
        }
    }
    let texts = interner.frame_texts();
    let text = |stack| interner.frames_of(stack).map_or_else(String::new, |frames| texts.folded(&frames));
    Ok(found.into_iter().map(|(thread, stack)| (thread, text(stack))).collect())
}
