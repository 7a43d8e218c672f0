//! The frames that the py-spy crate leaves out of a stack, for Python 3.6 to 3.10.
//!
//! The crate skips a frame without a word if its file name is empty, or if a name cannot be decoded or is too long:
//! the caller would seem to do its work. Here the frames of each thread are counted, and where the crate has fewer, the
//! missing ones are put back. Parts that cannot be read are empty, and lines are unknown. Offsets are from the headers
//! of 64-bit CPython, one for all releases of a minor version.

use crate::cpython::known_layouts::WIDE_TEXT;
use crate::cpython::pyunicode::{self, PyString};
use crate::linux::memory::{word, Fault, Memory};
use py_spy::{Frame, StackTrace};

/// The most threads and frames that the crate reads.
const MAX_ITEMS: usize = 4096;

/// Where fields lie, in bytes.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Of PyThreadState: its pthread_t.
    thread_id: usize,
    /// Of PyCodeObject.
    filename: usize,
    name: usize,
}

// The same in all of these versions. Of PyInterpreterState, PyThreadState and PyFrameObject.
const THREADS: usize = 8;
const NEXT: usize = 8;
const NEWEST_FRAME: usize = 24;
const BACK: usize = 24;
const WORD: usize = size_of::<usize>();

/// Puts frames back that the crate left out.
#[derive(Debug)]
pub struct DroppedFrames {
    layout: Layout,
}

impl DroppedFrames {
    /// For a Python of this version; None if its structures are not known.
    pub fn new(version: (u64, u64)) -> Option<DroppedFrames> {
        let layout = match version {
            _ if WORD != 8 => return None,
            (3, 6) => Layout { thread_id: 152, filename: 96, name: 104 },
            (3, 7) => Layout { thread_id: 176, filename: 96, name: 104 },
            (3, 8..=10) => Layout { thread_id: 176, filename: 104, name: 112 },
            _ => return None,
        };
        Some(DroppedFrames { layout })
    }

    /// Completes the stacks of the threads of an interpreter. A stack that does not fit stays as the crate read it: a
    /// process that runs may have changed it meanwhile.
    pub fn restore(
        &self,
        memory: &dyn Memory,
        interpreter: usize,
        traces: &mut [StackTrace],
    ) -> Result<(), Fault> {
        let mut state = memory.word(interpreter + THREADS)?;
        for trace in traces.iter_mut().take(MAX_ITEMS) {
            if state == 0 {
                break;
            }
            let mut thread = [0; 192];
            memory.read(state, &mut thread)?;
            state = word(&thread, NEXT);
            if word(&thread, self.layout.thread_id) as u64 != trace.thread_id {
                break;
            }
            let codes = codes(memory, word(&thread, NEWEST_FRAME))?;
            if codes.len() > trace.frames.len() {
                let texts = codes.iter().map(|&code| self.texts(memory, code)).collect();
                if let Some(frames) = merge(&trace.frames, texts) {
                    trace.frames = frames;
                }
            }
        }
        Ok(())
    }

    /// File and function of a code object.
    fn texts(&self, memory: &dyn Memory, code: usize) -> [PyString; 2] {
        [self.layout.filename, self.layout.name].map(|field| {
            let text = memory.word(code.wrapping_add(field));
            text.and_then(|text| pyunicode::read(&WIDE_TEXT, memory, text, &[]))
                .unwrap_or(PyString { text: String::new(), exact: false })
        })
    }
}

/// The code objects of a stack, leaf first.
fn codes(memory: &dyn Memory, newest: usize) -> Result<Vec<usize>, Fault> {
    let (mut frame, mut codes) = (newest, Vec::new());
    while frame != 0 && codes.len() < MAX_ITEMS {
        let mut back_and_code = [0; 2 * WORD];
        memory.read(frame.wrapping_add(BACK), &mut back_and_code)?;
        frame = word(&back_and_code, 0);
        codes.push(word(&back_and_code, WORD));
    }
    Ok(codes)
}

/// All frames of a stack, given those that the crate read, and file and function of each. None if they do not fit.
fn merge(read: &[Frame], texts: Vec<[PyString; 2]>) -> Option<Vec<Frame>> {
    let (mut rest, mut left) = (read.iter().peekable(), texts.len());
    let mut frames = Vec::with_capacity(left);
    for [file, name] in texts {
        // The crate decodes some texts in another way.
        let may_differ = rest.len() == left && !(file.exact && name.exact);
        left -= 1;
        let same = |frame: &Frame| (&frame.filename, &frame.name) == (&file.text, &name.text);
        if let Some(frame) = rest.next_if(|frame| may_differ || same(frame)) {
            frames.push(frame.clone());
            continue;
        }
        let is_readable = file.exact && name.exact && !file.text.is_empty() && file.text != "<shim>";
        if is_readable {
            return None;
        }
        frames.push(Frame {
            name: name.text,
            filename: file.text,
            module: None,
            short_filename: None,
            line: 0,
            locals: None,
            is_entry: false,
            is_shim_entry: false,
        });
    }
    rest.next().is_none().then_some(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str, exact: bool) -> PyString {
        PyString { text: text.into(), exact }
    }

    fn frame(file: &str, name: &str) -> Frame {
        Frame {
            name: name.into(),
            filename: file.into(),
            module: None,
            short_filename: None,
            line: 7,
            locals: None,
            is_entry: false,
            is_shim_entry: false,
        }
    }

    fn merged(read: &[Frame], texts: Vec<[PyString; 2]>) -> Option<Vec<(String, String, i32)>> {
        let frames = merge(read, texts)?;
        Some(frames.into_iter().map(|frame| (frame.filename, frame.name, frame.line)).collect())
    }

    #[test]
    fn frames_that_the_crate_cannot_name_are_put_back_in_their_place() {
        let read = [frame("a.py", "leaf"), frame("a.py", "root")];
        let texts = vec![
            [text("", true), text("<module>", true)],
            [text("a.py", true), text("leaf", true)],
            [text("b\u{fffd}.py", false), text("mid", true)],
            [text("", false), text("", false)],
            [text("a.py", true), text("root", true)],
        ];
        let row = |file: &str, name: &str, line| (file.to_owned(), name.to_owned(), line);
        let expected = [
            row("", "<module>", 0),
            row("a.py", "leaf", 7),
            row("b\u{fffd}.py", "mid", 0),
            row("", "", 0),
            row("a.py", "root", 7),
        ];
        assert_eq!(merged(&read, texts).unwrap(), expected);
    }

    #[test]
    fn a_frame_that_the_crate_decodes_in_another_way_stays_as_it_read_it() {
        let texts =
            vec![[text("\u{fffd}\u{fffd}.py", false), text("f", true)], [text("", true), text("g", true)]];
        assert_eq!(merged(&[frame("\u{1f600}.py", "f")], texts), None);
        let texts =
            vec![[text("", true), text("g", true)], [text("\u{fffd}\u{fffd}.py", false), text("f", true)]];
        assert_eq!(merged(&[frame("\u{1f600}.py", "f")], texts).unwrap()[1].0, "\u{1f600}.py");
    }

    #[test]
    fn a_stack_that_changed_meanwhile_stays_as_it_was_read() {
        let texts =
            || vec![[text("a.py", true), text("new", true)], [text("a.py", true), text("root", true)]];
        assert_eq!(merged(&[frame("a.py", "root")], texts()), None);
        assert_eq!(merged(&[frame("a.py", "old")], texts()), None);
        assert!(DroppedFrames::new((3, 11)).is_none() && DroppedFrames::new((2, 7)).is_none());
    }
}
