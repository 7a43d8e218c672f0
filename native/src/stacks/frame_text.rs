//! The text of one frame.

use crate::stacks::escape::escape;
use std::borrow::Cow;
use std::fmt::Write;

/// Replaces the frames that were cut out of the middle of a stack.
pub const TRUNCATED: &str = "(truncated)";
/// The stack of a thread that has a Python thread state but runs no Python function.
pub const NO_FRAMES: &str = "(no Python frames)";

/// The file of code that was compiled without a file name, or whose file name cannot be read.
pub const UNKNOWN_FILE: &str = "<unknown>";

/// One function call, as the sampler saw it. `line` 0 means unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    pub function: &'a str,
    pub file: &'a str,
    pub line: i32,
}

impl Call<'_> {
    /// Appends the text of the frame for a folded line: the text of `py-spy record -f raw`, escaped.
    pub fn write_escaped(&self, text: &mut String) {
        let began = text.len();
        self.write(text);
        if let Cow::Owned(escaped) = escape(&text[began..]) {
            text.replace_range(began.., &escaped);
        }
    }

    fn write(&self, text: &mut String) {
        text.push_str(if self.function.is_empty() { "(unnamed)" } else { self.function });
        let _ = match (self.file, self.line) {
            ("", _) => Ok(()),
            (file, 0) => write!(text, " ({file})"),
            (file, line) => write!(text, " ({file}:{line})"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::Call;

    #[test]
    fn a_frame_reads_as_py_spy_prints_it_and_is_escaped() {
        for (function, file, line, expected) in [
            ("leaf", "a b.py", 7, "leaf (a b.py:7)"),
            ("mid", "m.py", 0, "mid (m.py)"),
            ("root", "", 3, "root"),
            ("", "", 0, "(unnamed)"),
            ("#a", "b;c.py", 1, "%23a (b%3Bc.py:1)"),
        ] {
            let mut text = "before;".to_owned();
            Call { function, file, line }.write_escaped(&mut text);
            assert_eq!(text, format!("before;{expected}"));
        }
    }
}
