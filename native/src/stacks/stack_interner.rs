//! Frames and stacks by number, so that a tick that finds nothing new allocates nothing.
//!
//! A frame is its folded text, so frames that read alike are one. Numbers stay valid until `retain` drops what
//! they stand for. Who keeps numbers without telling `retain` compares `generation` before using them again.

use crate::stacks::frame_text::{Call, NO_FRAMES, TRUNCATED};
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(u32);

/// Takes the place of stacks that no longer fit.
pub const OTHER: &str = "(other)";
/// The leaf of a thread whose stack could not be read.
pub const UNREAD: &str = "(unread)";

impl FrameId {
    const OTHER: FrameId = FrameId(0);
    const NO_FRAMES: FrameId = FrameId(1);
    const TRUNCATED: FrameId = FrameId(2);
    const UNREAD: FrameId = FrameId(3);
    /// In the order of their numbers.
    const FIXED: [&str; 4] = [OTHER, NO_FRAMES, TRUNCATED, UNREAD];
}

impl StackId {
    /// `(other)`
    pub const OTHER: StackId = StackId(0);
    /// `(no Python frames)`
    pub const NO_FRAMES: StackId = StackId(1);
    const FIXED: [FrameId; 2] = [FrameId::OTHER, FrameId::NO_FRAMES];
}

/// The frames and stacks seen in one process.
#[derive(Debug)]
pub struct Book {
    frames: Numbered<str>,
    stacks: Numbered<[FrameId]>,
    max_stacks: usize,
    generation: u64,
    /// Kept to be filled again.
    text: String,
    cut: Vec<FrameId>,
}

/// Things and their numbers, both ways. A number whose thing was dropped is given out again.
#[derive(Debug)]
struct Numbered<T: ?Sized> {
    numbers: HashMap<Arc<T>, u32>,
    things: Vec<Option<Arc<T>>>,
    free: Vec<u32>,
}

/// What was in a book at one moment, to be read without holding up whoever goes on writing into it.
#[derive(Debug)]
pub struct Page {
    frames: Vec<Option<Arc<str>>>,
}

/// There are at most this many times more frames than stacks.
const FRAMES_A_STACK: usize = 4;

impl Book {
    /// A book for at most `max_stacks` stacks at a time; those beyond become `StackId::OTHER`, as do those with a
    /// frame for which there is no room.
    pub fn new(max_stacks: usize) -> Book {
        let mut book = Book {
            frames: Numbered::default(),
            stacks: Numbered::default(),
            max_stacks: max_stacks.max(1) + StackId::FIXED.len(),
            generation: 0,
            text: String::new(),
            cut: Vec::new(),
        };
        FrameId::FIXED.iter().for_each(|text| _ = book.frames.number(text));
        StackId::FIXED.iter().for_each(|frame| _ = book.stacks.number(&[*frame]));
        book
    }

    /// Changes whenever numbers given out before may have become invalid.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub fn frame(&mut self, call: &Call<'_>) -> FrameId {
        self.text.clear();
        call.write_escaped(&mut self.text);
        let room = self.frames.len() < self.max_stacks.saturating_mul(FRAMES_A_STACK);
        FrameId(self.frames.find_or_number(&self.text, room).unwrap_or(FrameId::OTHER.0))
    }

    /// The stack of these frames, leaf first, and whether it had to be cut.
    ///
    /// At most `max_depth` frames are kept (`max_depth` >= 1). Of a deeper stack the larger half of what fits
    /// is its root and the rest its leaf, with `(truncated)` between.
    pub fn stack(&mut self, leaf_first: &[FrameId], max_depth: usize) -> (StackId, bool) {
        if leaf_first.is_empty() {
            return (StackId::NO_FRAMES, false);
        }
        if leaf_first.contains(&FrameId::OTHER) {
            return (StackId::OTHER, false);
        }
        let room = self.stacks.len() < self.max_stacks;
        let truncated = leaf_first.len() > max_depth;
        let number = if truncated {
            let kept = max_depth - 1;
            let (leaf, root) = (kept / 2, kept - kept / 2);
            self.cut.clear();
            self.cut.extend_from_slice(&leaf_first[..leaf]);
            self.cut.push(FrameId::TRUNCATED);
            self.cut.extend_from_slice(&leaf_first[leaf_first.len() - root..]);
            self.stacks.find_or_number(&self.cut, room)
        } else {
            self.stacks.find_or_number(leaf_first, room)
        };
        (StackId(number.unwrap_or(StackId::OTHER.0)), truncated)
    }

    /// The stack of one that was called from the leaf of another, and whether it had to be cut.
    pub fn joined(&mut self, outer: StackId, inner: StackId, max_depth: usize) -> (StackId, bool) {
        if outer == StackId::OTHER || inner == StackId::NO_FRAMES {
            return (outer, false);
        }
        if inner == StackId::OTHER || outer == StackId::NO_FRAMES {
            return (inner, false);
        }
        match (self.frames_of(inner), self.frames_of(outer)) {
            (Some(inner), Some(outer)) => self.stack(&[&*inner, &*outer].concat(), max_depth),
            _ => (inner, false),
        }
    }

    /// What is known of a thread that could not be read, whose last good stack was this one.
    pub fn unread(&mut self, last: Option<StackId>) -> StackId {
        let root = last.and_then(|stack| self.frames_of(stack)?.last().copied());
        let fixed = root.is_none_or(|frame| (frame.0 as usize) < FrameId::FIXED.len());
        let leaf_first = [FrameId::UNREAD, root.unwrap_or(FrameId::UNREAD)];
        self.stack(if fixed { &leaf_first[..1] } else { &leaf_first }, usize::MAX).0
    }

    /// The frames of a stack, leaf first; None if it was dropped.
    pub fn frames_of(&self, stack: StackId) -> Option<Arc<[FrameId]>> {
        self.stacks.things.get(stack.0 as usize)?.clone()
    }

    pub fn stack_count(&self) -> usize {
        self.stacks.len()
    }

    /// The texts of all frames as they are now.
    pub fn page(&self) -> Page {
        Page { frames: self.frames.things.clone() }
    }

    /// Drops all other stacks, and the frames that are in none of the rest.
    pub fn retain(&mut self, mut keep: impl FnMut(StackId) -> bool) {
        self.generation += 1;
        self.stacks.retain(|number| (number as usize) < StackId::FIXED.len() || keep(StackId(number)));
        let mut used = vec![false; self.frames.things.len()];
        used[..FrameId::FIXED.len()].fill(true);
        for frame in self.stacks.numbers.keys().flat_map(|frames| frames.iter()) {
            used[frame.0 as usize] = true;
        }
        self.frames.retain(|number| used[number as usize]);
    }
}

impl Page {
    /// The folded text of a stack, root first, joined by `;`.
    pub fn folded(&self, leaf_first: &[FrameId]) -> String {
        let text = |frame: &FrameId| self.frames.get(frame.0 as usize)?.as_deref();
        let root_first = || leaf_first.iter().rev().filter_map(text);
        let mut folded = String::with_capacity(root_first().map(|text| text.len() + 1).sum());
        for text in root_first() {
            if !folded.is_empty() {
                folded.push(';');
            }
            folded.push_str(text);
        }
        folded
    }
}

impl<T: ?Sized + Eq + std::hash::Hash> Numbered<T>
where
    for<'a> Arc<T>: From<&'a T>,
{
    fn len(&self) -> usize {
        self.numbers.len()
    }

    fn find_or_number(&mut self, thing: &T, room: bool) -> Option<u32> {
        match self.numbers.get(thing) {
            Some(&number) => Some(number),
            None if room => Some(self.number(thing)),
            None => None,
        }
    }

    fn number(&mut self, thing: &T) -> u32 {
        let thing: Arc<T> = thing.into();
        let number = self.free.pop().unwrap_or(self.things.len() as u32);
        match self.things.get_mut(number as usize) {
            Some(slot) => *slot = Some(Arc::clone(&thing)),
            None => self.things.push(Some(Arc::clone(&thing))),
        }
        self.numbers.insert(thing, number);
        number
    }

    fn retain(&mut self, mut keep: impl FnMut(u32) -> bool) {
        let (things, free) = (&mut self.things, &mut self.free);
        self.numbers.retain(|_, &mut number| {
            let kept = keep(number);
            if !kept {
                things[number as usize] = None;
                free.push(number);
            }
            kept
        });
        self.numbers.shrink_to(self.numbers.len() * 2);
    }
}

impl<T: ?Sized> Default for Numbered<T> {
    fn default() -> Numbered<T> {
        Numbered { numbers: HashMap::new(), things: Vec::new(), free: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(function: &str) -> Call<'_> {
        Call { function, file: "", line: 0 }
    }

    fn text(book: &Book, stack: StackId) -> Option<String> {
        Some(book.page().folded(&book.frames_of(stack)?))
    }

    #[test]
    fn equal_stacks_have_one_number_and_give_their_text_back() {
        let mut book = Book::new(10);
        let frames =
            [book.frame(&Call { function: "leaf", file: "a;b.py", line: 7 }), book.frame(&call("root"))];
        let (stack, truncated) = book.stack(&frames, 10);
        assert_eq!(book.stack(&frames, 10), (stack, false));
        assert_eq!(text(&book, stack).unwrap(), "root;leaf (a%3Bb.py:7)");
        assert!(!truncated);
        assert_eq!(book.stack(&[], 10), (StackId::NO_FRAMES, false));
        assert_eq!(text(&book, StackId::NO_FRAMES).unwrap(), NO_FRAMES);
    }

    #[test]
    fn a_stack_goes_on_in_another() {
        let mut book = Book::new(10);
        let [root, run, leaf] = ["root", "run", "leaf"].map(|name| book.frame(&call(name)));
        let outer = book.stack(&[run, root], 10).0;
        let inner = book.stack(&[leaf], 10).0;
        let (joined, cut) = book.joined(outer, inner, 10);
        assert_eq!((text(&book, joined).unwrap().as_str(), cut), ("root;run;leaf", false));
        let (joined, cut) = book.joined(outer, inner, 2);
        assert_eq!((text(&book, joined).unwrap().as_str(), cut), ("root;(truncated)", true));
        assert_eq!(book.joined(outer, StackId::NO_FRAMES, 10).0, outer);
        assert_eq!(book.joined(StackId::NO_FRAMES, inner, 10).0, inner);
        assert_eq!(book.joined(outer, StackId::OTHER, 10).0, StackId::OTHER);
        assert_eq!(book.joined(StackId::OTHER, inner, 10).0, StackId::OTHER);
    }

    #[test]
    fn a_deep_stack_keeps_root_and_leaf_and_shows_the_cut() {
        let mut book = Book::new(10);
        let frames = ["f5", "f4", "f3", "f2", "f1"].map(|name| book.frame(&call(name)));
        let mut cut = |depth| {
            let (stack, truncated) = book.stack(&frames, depth);
            (text(&book, stack).unwrap(), truncated)
        };
        assert_eq!(cut(5), ("f1;f2;f3;f4;f5".into(), false));
        assert_eq!(cut(4), ("f1;f2;(truncated);f5".into(), true));
        assert_eq!(cut(3), ("f1;(truncated);f5".into(), true));
        assert_eq!(cut(2), ("f1;(truncated)".into(), true));
        assert_eq!(cut(1), ("(truncated)".into(), true));
    }

    #[test]
    fn what_is_new_in_a_full_book_is_other() {
        let mut book = Book::new(1);
        let frames = ["a", "b"].map(|name| book.frame(&call(name)));
        let (first, _) = book.stack(&frames[..1], 10);
        assert_eq!(book.stack(&frames[1..], 10), (StackId::OTHER, false));
        assert_eq!(book.stack(&frames[..1], 10), (first, false));
        assert_eq!(text(&book, StackId::OTHER).unwrap(), OTHER);
        let many: Vec<_> = (0..100).map(|n| book.frame(&call(&n.to_string()))).collect();
        assert_eq!(many.last(), Some(&FrameId::OTHER));
        assert_eq!(book.stack(&[frames[0], FrameId::OTHER], 10), (StackId::OTHER, false));
    }

    #[test]
    fn dropped_numbers_are_given_out_again_and_kept_ones_stay() {
        let mut book = Book::new(10);
        let frames = ["a", "b", "c"].map(|name| book.frame(&call(name)));
        let stacks = [0, 1, 2].map(|n| book.stack(&frames[n..n + 1], 10).0);
        let before = book.generation();
        book.retain(|stack| stack == stacks[1]);
        assert_ne!(book.generation(), before);
        assert_eq!(book.stack_count(), StackId::FIXED.len() + 1);
        assert_eq!(text(&book, stacks[1]).unwrap(), "b");
        assert_eq!(text(&book, stacks[0]), None);
        for n in 0..1000 {
            let frame = book.frame(&call(&n.to_string()));
            let stack = book.stack(&[frame], 10).0;
            assert_eq!(text(&book, stack).unwrap(), n.to_string());
            book.retain(|_| false);
        }
        assert!(book.stacks.things.len() < 10 && book.frames.things.len() < 10);
    }

    #[test]
    fn a_thread_that_cannot_be_read_is_known_by_the_root_of_its_last_stack() {
        let mut book = Book::new(10);
        let frames = ["leaf", "root"].map(|name| book.frame(&call(name)));
        let (last, _) = book.stack(&frames, 10);
        let unread = book.unread(Some(last));
        assert_eq!(text(&book, unread).unwrap(), "root;(unread)");
        assert_eq!(book.unread(Some(unread)), unread);
        for nothing in [None, Some(StackId::OTHER), Some(StackId::NO_FRAMES), Some(StackId(99))] {
            let unread = book.unread(nothing);
            assert_eq!(text(&book, unread).unwrap(), UNREAD);
        }
    }
}
