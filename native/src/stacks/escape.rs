//! Escaping of frame texts, so that any text is safe inside a folded line.
//!
//! `sidelight_model.frames.escape` is the same function in Python; a test compares the two.

use crate::stacks::states::is_state_frame;
use std::borrow::Cow;

/// The only sequences that mean anything when a folded line is read back.
const ESCAPES: [&str; 6] = ["%3B", "%0A", "%0D", "%25", "%23", "%5B"];

/// Escapes what a reader of folded lines would take for structure: `;`, line ends, a state frame
/// (such as `[idle]`), a header line (`#`), and a `%` that would read as one of these escapes.
pub fn escape(text: &str) -> Cow<'_, str> {
    let state_frame = is_state_frame(text);
    let special = |c: char| matches!(c, ';' | '\n' | '\r' | '%');
    if !state_frame && !text.starts_with('#') && !text.contains(special) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for (at, c) in text.char_indices() {
        match c {
            ';' => out.push_str("%3B"),
            '\n' => out.push_str("%0A"),
            '\r' => out.push_str("%0D"),
            '%' if ESCAPES.iter().any(|e| text[at..].starts_with(e)) => out.push_str("%25"),
            '#' if at == 0 => out.push_str("%23"),
            '[' if at == 0 && state_frame => out.push_str("%5B"),
            other => out.push(other),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn structure_is_escaped_and_the_rest_is_left_alone() {
        for (text, escaped) in [
            ("f (a.py:3)", "f (a.py:3)"),
            ("a;b\nc\rd", "a%3Bb%0Ac%0Dd"),
            ("100% (a.py)", "100% (a.py)"),
            ("%3B", "%253B"),
            ("%3b", "%3b"),
            ("%253B", "%25253B"),
            ("%%0A", "%%250A"),
            ("[idle]", "%5Bidle]"),
            ("[gil]", "%5Bgil]"),
            ("[cpu_wait]", "%5Bcpu_wait]"),
            ("[running]", "[running]"),
            ("[gil] (a.py)", "[gil] (a.py)"),
            ("#x #y", "%23x #y"),
            ("größe\u{2028}x", "größe\u{2028}x"),
            ("", ""),
        ] {
            assert_eq!(escape(text), escaped, "{text:?}");
        }
    }
}
