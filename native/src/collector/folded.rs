//! Folded text into what a collector stores: each distinct stack with its hash and its counts by state.
//!
//! `sidelight_model.folded` and `sidelight_collector.stack_hashing` are the same in Python; a test holds the two
//! together. What the text must look like is written there. A refusal here says only which line it is about: the
//! reference, asked again, says why.

use memchr::memmem;
use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::HashMap;
use twox_hash::XxHash3_64;

const TRUNCATED: &str = "(truncated)";
const IDLE: &str = ";[idle]";
const GIL: &str = ";[gil]";
/// The count has at most as many digits, and so fits.
const MAX_DIGITS: usize = 15;

/// What lines a text has besides stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between<'a> {
    /// One that begins with `#` is the next window's header, and ends this one.
    Headers,
    /// Those that begin like this are passed over.
    Remarks(&'a str),
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub stacks: usize,
    pub depth: usize,
}

/// A distinct stack: samples idle, running and gil, at most 2^63-1 of each.
#[derive(Debug, PartialEq, Eq)]
pub struct Counted<'a> {
    pub hash: u64,
    pub text: Cow<'a, str>,
    pub counts: [i64; 3],
}

/// The stacks of one window that have samples, in ascending order of hash.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Folded<'a> {
    pub stacks: Vec<Counted<'a>>,
    /// Samples of all stacks, and of those that were clipped, here or before.
    pub samples: u128,
    pub clipped: u128,
    /// Lines read, and where the next header is.
    pub lines: usize,
    pub next: Option<usize>,
}

/// The line, from 0, for which a text is refused.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused(pub usize);

/// Reads the lines of a body from `start` on, which is where a line begins or beyond the end.
pub fn fold<'a>(
    body: &'a [u8],
    start: usize,
    between: Between<'_>,
    limits: Limits,
) -> Result<Folded<'a>, Refused> {
    let rest = body.get(start..).unwrap_or_default();
    let next = match between {
        Between::Headers if rest.first() == Some(&b'#') => Some(0),
        Between::Headers => memmem::find(rest, b"\n#").map(|newline| newline + 1),
        Between::Remarks(_) => None,
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
            return Err(Refused(here));
        }
        let line = &good[begin..end.unwrap_or(good.len())];
        if !matches!(between, Between::Remarks(remark) if line.starts_with(remark)) {
            table.add(line, limits).ok_or(Refused(here))?;
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
    counts: [u128; 3],
}

struct Table<'a> {
    hash: fn(&[u8]) -> u64,
    sums: Vec<(u64, Sum<'a>)>,
    by_hash: HashMap<u64, usize>,
    /// Stacks whose hash another one had before them, by their text: nobody can make this slow.
    twins: HashMap<Cow<'a, str>, usize>,
}

impl<'a> Table<'a> {
    fn new(hash: fn(&[u8]) -> u64) -> Table<'a> {
        Table { hash, sums: Vec::new(), by_hash: HashMap::new(), twins: HashMap::new() }
    }

    /// None if the line is refused.
    fn add(&mut self, line: &'a str, limits: Limits) -> Option<()> {
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
        let at = match clipped(stack, limits.depth) {
            Some(_) if !is_stack(stack) => return None,
            Some(cut) => self.place(Cow::Owned(cut))?,
            None => self.place(Cow::Borrowed(stack))?,
        };
        self.sums[at].1.counts[state] += u128::from(count);
        (self.sums.len() <= limits.stacks).then_some(())
    }

    /// Where a stack is counted; None if it is not one.
    fn place(&mut self, stack: Cow<'a, str>) -> Option<usize> {
        let hash = (self.hash)(stack.as_bytes());
        let new = self.sums.len();
        let at = match self.by_hash.entry(hash) {
            Entry::Vacant(entry) => *entry.insert(new),
            Entry::Occupied(entry) if self.sums[*entry.get()].1.text == stack => *entry.get(),
            Entry::Occupied(_) => *self.twins.entry(stack.clone()).or_insert(new),
        };
        if at == new {
            if !is_stack(&stack) {
                return None;
            }
            self.sums.push((hash, Sum { text: stack, counts: [0; 3] }));
        }
        Some(at)
    }

    fn finish(self, lines: usize, next: Option<usize>) -> Folded<'a> {
        let mut folded = Folded { lines, next, ..Folded::default() };
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
            folded.stacks.push(Counted { hash, text, counts });
        }
        folded.stacks.sort_unstable_by(|one, other| (one.hash, &one.text).cmp(&(other.hash, &other.text)));
        folded
    }
}

/// A stack without its state, and the state: 0 idle, 1 running, 2 gil.
fn state_of(stack: &str) -> (&str, usize) {
    if let Some(stack) = stack.strip_suffix(IDLE) {
        (stack, 0)
    } else if let Some(stack) = stack.strip_suffix(GIL) {
        (stack, 2)
    } else {
        (stack, 1)
    }
}

/// Whether this is frames joined by `;`, none of them empty, and not a state alone.
fn is_stack(text: &str) -> bool {
    let bare = [IDLE, GIL].iter().any(|state| text == &state[1..]);
    let open = text.is_empty() || text.starts_with(';') || text.ends_with(';');
    !bare && !open && memmem::find(text.as_bytes(), b";;").is_none()
}

fn is_clipped(stack: &str) -> bool {
    stack.contains(TRUNCATED) && stack.split(';').any(|frame| frame == TRUNCATED)
}

/// The stack cut to a depth, the middle becoming one frame and both ends kept; None if it is no deeper.
fn clipped(stack: &str, depth: usize) -> Option<String> {
    // A frame is a character at least, and a `;` stands between two: shorter texts need no counting.
    if stack.len() <= 2 * depth || memchr::memchr_iter(b';', stack.as_bytes()).count() < depth {
        return None;
    }
    let frames: Vec<&str> = stack.split(';').collect();
    let kept = depth.saturating_sub(1);
    let (root, leaf) = (kept.div_ceil(2), kept / 2);
    Some([&frames[..root], &[TRUNCATED], &frames[frames.len() - leaf..]].concat().join(";"))
}

#[cfg(test)]
mod tests;
