//! Stacks as lists of frame numbers, and the text of each distinct frame once.
//!
//! `sidelight_collector.stack_hashing` is the reference in Python and defines the columns; a test compares the two.

use crate::collector::columns::MismatchedColumns;
use crate::collector::words::Words;
use std::ops::Range;

const NONE: u32 = u32::MAX;

/// Stack i has the frames from offset i to the next, and frame n the text from text offset n to the next. Frames are
/// numbered in the order in which they occur first.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PackedStacks {
    pub offsets: Vec<i32>,
    pub frames: Vec<i32>,
    pub text_offsets: Vec<i32>,
    pub texts: String,
}

/// Packs stacks. `order` names each of them once: neighbors that begin alike are packed faster.
pub fn pack(stacks: &[&str], order: impl Iterator<Item = usize>) -> Result<PackedStacks, MismatchedColumns> {
    let mut words = Words::new();
    let mut codes: Vec<u32> = Vec::new();
    let mut spans = vec![0..0; stacks.len()];
    let (mut before, mut span) = ("", 0..0);
    for at in order {
        let stack = *stacks.get(at).ok_or(MismatchedColumns)?;
        span = add_frames(&mut codes, &mut words, stack, (before, span));
        spans[at] = span.clone();
        before = stack;
    }
    let mut packed = PackedStacks { offsets: vec![0], text_offsets: vec![0], ..PackedStacks::default() };
    let mut numbers = vec![NONE; words.len()];
    packed.frames.reserve(codes.len());
    for span in spans {
        for &code in &codes[span] {
            let number = &mut numbers[code as usize];
            if *number == NONE {
                *number = packed.add_text(words.get(code))?;
            }
            packed.frames.push(*number as i32);
        }
        packed.offsets.push(i32::try_from(packed.frames.len()).map_err(|_| MismatchedColumns)?);
    }
    Ok(packed)
}

impl PackedStacks {
    /// Adds the text of a frame, and returns its number.
    fn add_text(&mut self, text: &str) -> Result<u32, MismatchedColumns> {
        self.texts.push_str(text);
        self.text_offsets.push(i32::try_from(self.texts.len()).map_err(|_| MismatchedColumns)?);
        Ok(self.text_offsets.len() as u32 - 2)
    }
}

/// Adds the codes of the frames of a stack, and returns where they are.
///
/// Frames that it shares with the stack `before` are taken from there.
fn add_frames(
    codes: &mut Vec<u32>,
    words: &mut Words,
    stack: &str,
    (before, span): (&str, Range<usize>),
) -> Range<usize> {
    let first = codes.len();
    let equal = count_equal_bytes(stack.as_bytes(), before.as_bytes());
    let mut rest = stack;
    if let Some(end) = memchr::memrchr(b';', &stack.as_bytes()[..equal]) {
        let shared = memchr::memchr_iter(b';', &stack.as_bytes()[..=end]).count();
        codes.extend_from_within(span.start..span.start + shared);
        rest = &stack[end + 1..];
    }
    let mut from = 0;
    for end in memchr::memchr_iter(b';', rest.as_bytes()).chain([rest.len()]) {
        codes.push(words.number(&rest[from..end]));
        from = end + 1;
    }
    first..codes.len()
}

fn count_equal_bytes(one: &[u8], other: &[u8]) -> usize {
    const CHUNK: usize = 16;
    let chunks = one.chunks_exact(CHUNK).zip(other.chunks_exact(CHUNK));
    let start = CHUNK * chunks.take_while(|(one, other)| one == other).count();
    let bytes = one[start..].iter().zip(&other[start..]);
    start + bytes.take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
pub(crate) mod tests;
