//! Parsing of folded text into distinct stacks, each with its hash and its counts by state.
//!
//! `sidelight_model.folded` and `sidelight_collector.stack_hashing` are the reference in Python and define the
//! format; a test compares the two. An error here names only the line: the caller runs the reference to get the
//! reason.

use crate::collector::columns::MismatchedColumns;
use crate::collector::packed_stacks::{self, PackedStacks};
use crate::stacks::states::{is_state_frame, RUNNING, STATE_COUNT, STATE_SUFFIXES};
use memchr::memmem;
use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::HashMap;
use twox_hash::XxHash3_64;

const TRUNCATED: &str = "(truncated)";
/// The count has at most as many digits, and so fits.
const MAX_DIGITS: usize = 15;

/// The lines of a text that are not stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherLines<'a> {
    /// A line that begins with `#` is the header of the next window and ends this one.
    NextHeader,
    /// Lines with this prefix are skipped.
    Comments(&'a str),
}

#[derive(Clone, Copy, Debug)]
pub struct FoldLimits {
    pub stacks: usize,
    pub depth: usize,
}

/// A distinct stack: samples of each state, at most 2^63-1 of each.
#[derive(Debug, PartialEq, Eq)]
pub struct StackCounts<'a> {
    pub hash: u64,
    pub text: Cow<'a, str>,
    pub counts: [i64; STATE_COUNT],
    /// How many stacks come before it in the text.
    pub place: usize,
}

/// The stacks of one window that have samples, in ascending order of hash.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FoldedWindow<'a> {
    pub stacks: Vec<StackCounts<'a>>,
    /// Samples of all stacks, and of those that were clipped, here or before.
    pub samples: u128,
    pub clipped: u128,
    /// Lines read, and where the next header is.
    pub lines: usize,
    pub next: Option<usize>,
}

impl FoldedWindow<'_> {
    /// Packs the stacks in their order. In the text, neighbors begin alike.
    pub fn pack(&self) -> Result<PackedStacks, MismatchedColumns> {
        let texts: Vec<&str> = self.stacks.iter().map(|stack| &*stack.text).collect();
        let mut order = vec![0; texts.len()];
        self.stacks.iter().enumerate().for_each(|(at, stack)| order[stack.place] = at);
        packed_stacks::pack(&texts, order.into_iter())
    }
}

/// The first line, from 0, that cannot be parsed.
#[derive(Debug, PartialEq, Eq)]
pub struct UnreadableLine(pub usize);

/// Parses the lines of a body from `start` on: the start of a line, or a position beyond the end.
pub fn fold<'a>(
    body: &'a [u8],
    start: usize,
    other_lines: OtherLines<'_>,
    limits: FoldLimits,
) -> Result<FoldedWindow<'a>, UnreadableLine> {
    let rest = body.get(start..).unwrap_or_default();
    let next = match other_lines {
        OtherLines::NextHeader if rest.first() == Some(&b'#') => Some(0),
        OtherLines::NextHeader => memmem::find(rest, b"\n#").map(|newline| newline + 1),
        OtherLines::Comments(_) => None,
    };
    // The newline before a header ends the line above it.
    let part = next.map_or(rest, |header| &rest[..header.saturating_sub(1)]);
    let (good, unreadable) = match std::str::from_utf8(part) {
        Ok(text) => (text, false),
        Err(error) => (std::str::from_utf8(&part[..error.valid_up_to()]).unwrap_or_default(), true),
    };
    let mut table = Table::new(XxHash3_64::oneshot);
    // Between a header and one that follows at once there is no line, not even an empty one.
    let mut lines = usize::from(next != Some(0));
    let mut begin = 0;
    loop {
        let end = memchr::memchr(b'\n', &good.as_bytes()[begin..]).map(|at| begin + at);
        let here = lines.saturating_sub(1);
        if end.is_none() && unreadable {
            return Err(UnreadableLine(here));
        }
        let line = &good[begin..end.unwrap_or(good.len())];
        if !matches!(other_lines, OtherLines::Comments(remark) if line.starts_with(remark)) {
            table.add(line, limits).ok_or(UnreadableLine(here))?;
        }
        let Some(newline) = end else { break };
        begin = newline + 1;
        lines += 1;
    }
    Ok(table.finish(lines, next.map(|header| start + header)))
}

/// A stack and its samples while lines are added up.
struct Sum<'a> {
    text: Cow<'a, str>,
    counts: [u128; STATE_COUNT],
}

struct Table<'a> {
    hash: fn(&[u8]) -> u64,
    sums: Vec<(u64, Sum<'a>)>,
    by_hash: HashMap<u64, usize>,
    /// Stacks whose hash an earlier stack has, by their text: hash collisions cannot make this slow.
    collisions: HashMap<Cow<'a, str>, usize>,
}

impl<'a> Table<'a> {
    fn new(hash: fn(&[u8]) -> u64) -> Table<'a> {
        Table { hash, sums: Vec::new(), by_hash: HashMap::new(), collisions: HashMap::new() }
    }

    /// None if the line cannot be parsed.
    fn add(&mut self, line: &'a str, limits: FoldLimits) -> Option<()> {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.is_empty() {
            return Some(());
        }
        let space = memchr::memrchr(b' ', line.as_bytes()).filter(|&space| space > 0)?;
        let digits = &line[space + 1..];
        if digits.is_empty() || digits.len() > MAX_DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit())
        {
            return None;
        }
        let count: u64 = digits.parse().ok()?;
        let (stack, state) = state_of(&line[..space]);
        let at = match clip(stack, limits.depth) {
            Some(_) if !is_stack(stack) => return None,
            Some(cut) => self.index_of(Cow::Owned(cut))?,
            None => self.index_of(Cow::Borrowed(stack))?,
        };
        self.sums[at].1.counts[state] += u128::from(count);
        (self.sums.len() <= limits.stacks).then_some(())
    }

    /// The index of a stack in `sums`; None if it is not a stack.
    fn index_of(&mut self, stack: Cow<'a, str>) -> Option<usize> {
        let hash = (self.hash)(stack.as_bytes());
        let new = self.sums.len();
        let at = match self.by_hash.entry(hash) {
            Entry::Vacant(entry) => *entry.insert(new),
            Entry::Occupied(entry) if self.sums[*entry.get()].1.text == stack => *entry.get(),
            Entry::Occupied(_) => *self.collisions.entry(stack.clone()).or_insert(new),
        };
        if at == new {
            if !is_stack(&stack) {
                return None;
            }
            self.sums.push((hash, Sum { text: stack, counts: [0; STATE_COUNT] }));
        }
        Some(at)
    }

    fn finish(self, lines: usize, next: Option<usize>) -> FoldedWindow<'a> {
        let mut folded = FoldedWindow { lines, next, ..FoldedWindow::default() };
        for (hash, Sum { text, counts }) in self.sums {
            let samples = counts.iter().sum::<u128>();
            if samples == 0 {
                continue;
            }
            folded.samples += samples;
            if is_clipped(&text) {
                folded.clipped += samples;
            }
            let counts = counts.map(|count| i64::try_from(count).unwrap_or(i64::MAX));
            let place = folded.stacks.len();
            folded.stacks.push(StackCounts { hash, text, counts, place });
        }
        folded.stacks.sort_unstable_by(|one, other| (one.hash, &one.text).cmp(&(other.hash, &other.text)));
        folded
    }
}

/// A stack without its state, and the number of the state.
fn state_of(stack: &str) -> (&str, usize) {
    if stack.ends_with(']') {
        for (state, suffix) in STATE_SUFFIXES.iter().enumerate().filter(|(_, suffix)| !suffix.is_empty()) {
            if let Some(stack) = stack.strip_suffix(suffix) {
                return (stack, state);
            }
        }
    }
    (stack, RUNNING)
}

/// Whether this is frames joined by `;`, none of them empty, and not a state alone.
fn is_stack(text: &str) -> bool {
    let open = text.is_empty() || text.starts_with(';') || text.ends_with(';');
    !is_state_frame(text) && !open && memmem::find(text.as_bytes(), b";;").is_none()
}

fn is_clipped(stack: &str) -> bool {
    stack.contains(TRUNCATED) && stack.split(';').any(|frame| frame == TRUNCATED)
}

/// The stack cut to a depth, the middle becoming one frame and both ends kept; None if it is no deeper.
fn clip(stack: &str, depth: usize) -> Option<String> {
    // A frame is a character at least, and a `;` stands between two: shorter texts need no counting.
    if stack.len() <= 2 * depth || memchr::memchr_iter(b';', stack.as_bytes()).count() < depth {
        return None;
    }
    let frames: Vec<&str> = stack.split(';').collect();
    let frames_left = depth.saturating_sub(1);
    let (root, leaf) = (frames_left.div_ceil(2), frames_left / 2);
    Some([&frames[..root], &[TRUNCATED], &frames[frames.len() - leaf..]].concat().join(";"))
}

#[cfg(test)]
mod tests;
