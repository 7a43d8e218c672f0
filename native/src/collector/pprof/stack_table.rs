//! The distinct stacks of a profile: their texts and their hashes.

use super::encoded_profile::{read_numbers, Profile};
use super::{PprofLimits, Refusal, NO_FRAMES};
use crate::collector::wire::{read_integers, Damaged, Fields, Integers, Value};
use crate::stacks::escape::escape;
use std::collections::HashMap;
use twox_hash::XxHash3_64;

const TRUNCATED: &str = "(truncated)";
const NO_NAME: &str = "(no name)";
/// Numbers of locations up to this many times their number are looked up in an array.
const DENSE_FACTOR: usize = 4;

/// The distinct stacks of a profile. The text of a location is built once, that of a stack once per list of locations.
pub(super) struct StackTable<'a> {
    profile: &'a Profile<'a>,
    limits: PprofLimits,
    functions: Numbered<'a>,
    locations: Numbered<'a>,
    /// Escaped frames of the locations in use, each after a `;`, the outermost first.
    frames: String,
    /// Where `frames` has the frames of a location, for low numbers of locations and for others.
    dense: Vec<Span>,
    sparse: HashMap<u64, Span>,
    /// The frames of one stack, the leaf first.
    spans: Vec<Span>,
    /// The texts of the stacks, one after the other.
    pub(super) texts: String,
    pub(super) stacks: Vec<StackText>,
    by_locations: HashMap<u64, usize>,
    by_text: HashMap<u64, usize>,
    /// Whether a frame of the profile reads as the place where a stack was cut.
    has_marker: bool,
    pub(super) text_bytes: usize,
}

/// Messages by their own number: low numbers are places in an array.
struct Numbered<'a> {
    dense: Vec<Option<&'a [u8]>>,
    sparse: HashMap<u64, &'a [u8]>,
}

impl<'a> Numbered<'a> {
    fn read(messages: &[&'a [u8]]) -> Result<Numbered<'a>, Damaged> {
        let mut table =
            Numbered { dense: vec![None; DENSE_FACTOR * messages.len() + 1], sparse: HashMap::new() };
        for &message in messages {
            let [number] = read_numbers(message, [1])?;
            match table.dense.get_mut(number as usize) {
                Some(place) => *place = Some(message),
                None => drop(table.sparse.insert(number, message)),
            }
        }
        Ok(table)
    }

    fn get(&self, number: u64) -> Option<&'a [u8]> {
        match self.dense.get(number as usize) {
            Some(place) => *place,
            None => self.sparse.get(&number).copied(),
        }
    }
}

/// A part of a text: its start and end. No frames are empty.
#[derive(Clone, Copy, Default)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Span {
    pub(super) fn new(start: usize, end: usize) -> Result<Span, Refusal> {
        let part = |at| u32::try_from(at).map_err(|_| Refusal::TooMuchText);
        Ok(Span { start: part(start)?, end: part(end)? })
    }

    #[inline]
    fn of(self, text: &str) -> &str {
        &text[self.start as usize..self.end as usize]
    }
}

#[derive(Clone, Copy)]
pub(super) struct StackText {
    pub(super) hash: u64,
    pub(super) span: Span,
    pub(super) is_truncated: bool,
}

impl<'a> StackTable<'a> {
    pub(super) fn new(profile: &'a Profile<'a>, limits: PprofLimits) -> Result<StackTable<'a>, Damaged> {
        let dense = DENSE_FACTOR * profile.locations.len() + 1;
        Ok(StackTable {
            profile,
            limits,
            functions: Numbered::read(&profile.functions)?,
            locations: Numbered::read(&profile.locations)?,
            frames: String::new(),
            dense: vec![Span::default(); dense],
            sparse: HashMap::new(),
            spans: Vec::new(),
            texts: String::new(),
            stacks: Vec::new(),
            by_locations: HashMap::new(),
            by_text: HashMap::new(),
            has_marker: false,
            text_bytes: 0,
        })
    }

    /// The number of the stack of these locations, the leaf first.
    ///
    /// Stacks with the same hash are the same stack, as in the store.
    pub(super) fn index_of(&mut self, locations: &[Value<'_>]) -> Result<usize, Refusal> {
        let key = hash_locations(locations)?;
        if let Some(&stack) = self.by_locations.get(&key) {
            return Ok(stack);
        }
        let start = self.texts.len();
        let is_cut = self.add_text(locations)?;
        let hash = XxHash3_64::oneshot(&self.texts.as_bytes()[start..]);
        let stack = *self.by_text.entry(hash).or_insert(self.stacks.len());
        if stack == self.stacks.len() {
            let is_truncated = is_cut || self.has_marker && has_truncated_frame(&self.texts[start..]);
            self.stacks.push(StackText { hash, span: Span::new(start, self.texts.len())?, is_truncated });
        } else {
            self.texts.truncate(start);
        }
        self.by_locations.insert(key, stack);
        Ok(stack)
    }

    /// Adds the text of a stack to `texts`, and returns whether it was cut.
    fn add_text(&mut self, locations: &[Value<'_>]) -> Result<bool, Refusal> {
        self.spans.clear();
        let mut bytes = 0;
        for &value in locations {
            let mut integers = Integers::new(value);
            while let Some(location) = integers.read_next()? {
                let mut span = self.dense.get(location as usize).copied().unwrap_or_default();
                if span.end == 0 {
                    span = self.build_frames(location)?;
                }
                bytes += (span.end - span.start) as usize;
                self.spans.push(span);
            }
        }
        if self.spans.is_empty() {
            self.texts.push_str(NO_FRAMES);
            return self.reserve(NO_FRAMES.len()).map(|()| false);
        }
        self.reserve(bytes)?;
        let start = self.texts.len();
        self.texts.reserve(bytes);
        let mut spans = self.spans.iter().rev();
        if let Some(&Span { start, end }) = spans.next() {
            self.texts.push_str(&self.frames[start as usize + 1..end as usize]);
        }
        for &span in spans {
            self.texts.push_str(span.of(&self.frames));
        }
        let Some(text) = truncate(&self.texts[start..], self.limits.depth) else { return Ok(false) };
        self.texts.truncate(start);
        self.texts.push_str(&text);
        Ok(true)
    }

    /// The frames of a location, which are built when they are needed first.
    #[cold]
    fn build_frames(&mut self, location: u64) -> Result<Span, Refusal> {
        if let Some(&span) = self.sparse.get(&location) {
            return Ok(span);
        }
        let message = self.locations.get(location).ok_or(Damaged("a location is missing"))?;
        let start = self.frames.len();
        let mut lines = Vec::new();
        for field in Fields(message) {
            if let (4, line) = field? {
                lines.push(line.bytes()?);
            }
        }
        for line in lines.iter().rev() {
            let [function, line] = read_numbers(line, [1, 2])?;
            let function = self.functions.get(function).ok_or(Damaged("a function is missing"))?;
            let [name, file] = read_numbers(function, [2, 4])?;
            let (name, file) = (self.profile.string(name)?, self.profile.string(file)?);
            self.reserve(name.len() + file.len())?;
            self.frames.push(';');
            self.has_marker |= push_frame(&mut self.frames, &name, &file, line);
        }
        if lines.is_empty() {
            let [address] = read_numbers(message, [3])?;
            self.frames.push_str(&format!(";0x{address:x}"));
        }
        let span = Span::new(start, self.frames.len())?;
        match self.dense.get_mut(location as usize) {
            Some(place) => *place = span,
            None => drop(self.sparse.insert(location, span)),
        }
        Ok(span)
    }

    fn reserve(&mut self, bytes: usize) -> Result<(), Refusal> {
        self.text_bytes += bytes;
        if self.text_bytes > self.limits.text_bytes {
            return Err(Refusal::TooMuchText);
        }
        Ok(())
    }

    pub(super) fn key(&self, stack: usize) -> (u64, &str) {
        (self.stacks[stack].hash, self.stacks[stack].span.of(&self.texts))
    }
}

/// Hashes a list of locations as it is encoded.
fn hash_locations(locations: &[Value<'_>]) -> Result<u64, Damaged> {
    if let [Value::Bytes(packed)] = locations {
        return Ok(XxHash3_64::oneshot(packed));
    }
    let mut bytes = Vec::new();
    for &value in locations {
        read_integers(value, |number| bytes.extend_from_slice(&number.to_ne_bytes()))?;
    }
    // Another seed, because other lists have the same bytes when they are packed.
    Ok(XxHash3_64::oneshot_with_seed(1, &bytes))
}

/// Adds a frame as `function (file:line)`, without what is unknown, and returns whether it reads as TRUNCATED.
fn push_frame(frames: &mut String, name: &str, file: &str, line: u64) -> bool {
    let start = frames.len();
    frames.push_str(if name.is_empty() { NO_NAME } else { name });
    if !file.is_empty() {
        frames.push_str(" (");
        frames.push_str(file);
        if 0 < line && line < 1 << 31 {
            frames.push(':');
            push_number(frames, line);
        }
        frames.push(')');
    }
    let bytes = &frames.as_bytes()[start..];
    let has_special =
        memchr::memchr3(b';', b'\n', b'\r', bytes).is_some() || memchr::memchr(b'%', bytes).is_some();
    if has_special || matches!(bytes[0], b'#' | b'[') {
        let escaped = escape(&frames[start..]).into_owned();
        frames.truncate(start);
        frames.push_str(&escaped);
    }
    &frames[start..] == TRUNCATED
}

fn push_number(text: &mut String, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    while at == digits.len() || number > 0 {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    digits[at..].iter().for_each(|&digit| text.push(char::from(digit)));
}

fn has_truncated_frame(text: &str) -> bool {
    text.split(';').any(|frame| frame == TRUNCATED)
}

/// The stack cut to `depth` frames, one frame in the place of the middle; None if it is no deeper.
fn truncate(text: &str, depth: usize) -> Option<String> {
    if text.len() <= 2 * depth || memchr::memchr_iter(b';', text.as_bytes()).count() < depth {
        return None;
    }
    let frames: Vec<&str> = text.split(';').collect();
    let kept = depth.saturating_sub(1);
    let (root, leaf) = (kept.div_ceil(2), kept / 2);
    Some([&frames[..root], &[TRUNCATED], &frames[frames.len() - leaf..]].concat().join(";"))
}
