//! Interned frames and stacks, so that a tick that finds nothing new allocates nothing.
//!
//! A frame is its folded text: frames of equal text have one id. Ids stay valid until `retain` drops their items. A
//! caller that keeps ids across a `retain` compares `generation` before it uses them again.

use crate::linux::memory_pool::{MemoryAccount, MemoryPool};
use crate::stacks::frame_text::{Call, NO_FRAMES, TRUNCATED};
use rustc_hash::FxHashMap;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(u32);

/// Replaces stacks beyond the limit.
pub const OTHER: &str = "(other)";
/// The leaf of a thread whose stack could not be read.
pub const UNREAD: &str = "(unread)";

impl FrameId {
    const OTHER: FrameId = FrameId(0);
    const NO_FRAMES: FrameId = FrameId(1);
    const TRUNCATED: FrameId = FrameId(2);
    const UNREAD: FrameId = FrameId(3);
    /// In the order of their ids.
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
pub struct StackInterner {
    frames: IdTable<str>,
    stacks: IdTable<[FrameId]>,
    max_stacks: usize,
    /// What frames and stacks take.
    memory: MemoryAccount,
    is_full: bool,
    generation: u64,
    /// Buffers that are reused.
    text: String,
    truncated: Vec<FrameId>,
}

/// Items and their ids, both ways. The id of a dropped item is reused.
#[derive(Debug)]
struct IdTable<T: ?Sized> {
    ids: FxHashMap<Arc<T>, u32>,
    items: Vec<Option<Arc<T>>>,
    free: Vec<u32>,
}

/// The texts of all frames at one moment, to be read without locking the interner.
#[derive(Debug)]
pub struct FrameTexts {
    frames: Vec<Option<Arc<str>>>,
}

/// There are at most this many times more frames than stacks.
const FRAMES_PER_STACK: usize = 4;
/// Maximum of the memory that texts and stacks take: a target chooses both. Beyond it new ones are `(other)`.
const MAX_BYTES: usize = 32 << 20;
/// The same for all processes.
static POOL: MemoryPool = MemoryPool::new(64 << 20, 1 << 20);
/// What an entry takes besides its content.
const ENTRY_BYTES: usize = 96;

impl StackInterner {
    /// An interner for at most `max_stacks` stacks at a time; those beyond become `StackId::OTHER`, as do those with a
    /// frame for which there is no room.
    pub fn new(max_stacks: usize) -> StackInterner {
        let mut interner = StackInterner {
            frames: IdTable::default(),
            stacks: IdTable::default(),
            max_stacks: max_stacks.max(1) + StackId::FIXED.len(),
            memory: MemoryAccount::new(&POOL, MAX_BYTES),
            is_full: false,
            generation: 0,
            text: String::new(),
            truncated: Vec::new(),
        };
        FrameId::FIXED.iter().for_each(|text| _ = interner.frames.insert(text));
        StackId::FIXED.iter().for_each(|frame| _ = interner.stacks.insert(&[*frame]));
        interner
    }

    /// Changes whenever earlier ids may have become invalid.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub fn intern_frame(&mut self, call: &Call<'_>) -> FrameId {
        self.text.clear();
        call.write_escaped(&mut self.text);
        let max_frames = self.max_stacks.saturating_mul(FRAMES_PER_STACK);
        let size = self.text.len() + ENTRY_BYTES;
        let room = self.frames.len() < max_frames && self.memory.has_room(size);
        let id = self.frames.get_or_insert(&self.text, room);
        self.note_use(id, size);
        FrameId(id.map_or(FrameId::OTHER.0, |(id, _)| id))
    }

    /// The stack of these frames, leaf first, and whether it had to be cut.
    ///
    /// At most `max_depth` frames are kept (`max_depth` >= 1). Of a deeper stack the larger half of what fits
    /// is its root and the rest its leaf, with `(truncated)` between.
    pub fn intern_stack(&mut self, leaf_first: &[FrameId], max_depth: usize) -> (StackId, bool) {
        if leaf_first.is_empty() {
            return (StackId::NO_FRAMES, false);
        }
        if leaf_first.contains(&FrameId::OTHER) {
            return (StackId::OTHER, false);
        }
        let truncated = leaf_first.len() > max_depth;
        let size = leaf_first.len().min(max_depth) * size_of::<FrameId>() + ENTRY_BYTES;
        let room = self.stacks.len() < self.max_stacks && self.memory.has_room(size);
        let id = if truncated {
            let frames_left = max_depth - 1;
            let (leaf, root) = (frames_left / 2, frames_left - frames_left / 2);
            self.truncated.clear();
            self.truncated.extend_from_slice(&leaf_first[..leaf]);
            self.truncated.push(FrameId::TRUNCATED);
            self.truncated.extend_from_slice(&leaf_first[leaf_first.len() - root..]);
            self.stacks.get_or_insert(&self.truncated, room)
        } else {
            self.stacks.get_or_insert(leaf_first, room)
        };
        self.note_use(id, size);
        (StackId(id.map_or(StackId::OTHER.0, |(id, _)| id)), truncated)
    }

    /// Accounts for an entry that was requested: it may be new, or there was no room for it.
    fn note_use(&mut self, entry: Option<(u32, bool)>, size: usize) {
        match entry {
            Some((_, true)) => self.memory.add(size),
            Some((_, false)) => {}
            None => self.is_full = true,
        }
    }

    /// Whether something has become `(other)` since the last `retain`.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// The stack `inner`, called from the leaf of `outer`, and whether it had to be cut.
    pub fn join(&mut self, outer: StackId, inner: StackId, max_depth: usize) -> (StackId, bool) {
        if outer == StackId::OTHER || inner == StackId::NO_FRAMES {
            return (outer, false);
        }
        if inner == StackId::OTHER || outer == StackId::NO_FRAMES {
            return (inner, false);
        }
        match (self.frames_of(inner), self.frames_of(outer)) {
            (Some(inner), Some(outer)) => self.intern_stack(&[&*inner, &*outer].concat(), max_depth),
            _ => (inner, false),
        }
    }

    /// The stack of a thread that could not be read: `(unread)` under the root of its last good stack.
    pub fn unread_stack(&mut self, last: Option<StackId>) -> StackId {
        let root = last.and_then(|stack| self.frames_of(stack)?.last().copied());
        let fixed = root.is_none_or(|frame| (frame.0 as usize) < FrameId::FIXED.len());
        let leaf_first = [FrameId::UNREAD, root.unwrap_or(FrameId::UNREAD)];
        self.intern_stack(if fixed { &leaf_first[..1] } else { &leaf_first }, usize::MAX).0
    }

    /// The frames of a stack, leaf first; None if it was dropped.
    pub fn frames_of(&self, stack: StackId) -> Option<Arc<[FrameId]>> {
        self.stacks.items.get(stack.0 as usize)?.clone()
    }

    /// The folded text of a frame; None if it was dropped.
    pub fn frame_text(&self, frame: FrameId) -> Option<&str> {
        self.frames.items.get(frame.0 as usize)?.as_deref()
    }

    pub fn stack_count(&self) -> usize {
        self.stacks.len()
    }

    /// The texts of all frames as they are now.
    pub fn frame_texts(&self) -> FrameTexts {
        FrameTexts { frames: self.frames.items.clone() }
    }

    /// Drops all other stacks, and the frames that are in none of the rest.
    pub fn retain(&mut self, mut keep: impl FnMut(StackId) -> bool) {
        self.generation += 1;
        self.stacks.retain(|id| (id as usize) < StackId::FIXED.len() || keep(StackId(id)));
        let mut used = vec![false; self.frames.items.len()];
        used[..FrameId::FIXED.len()].fill(true);
        for frame in self.stacks.ids.keys().flat_map(|frames| frames.iter()) {
            used[frame.0 as usize] = true;
        }
        self.frames.retain(|id| used[id as usize]);
        let frames = self.frames.ids.keys().map(|text| text.len() + ENTRY_BYTES).sum::<usize>();
        let stack_size = |frames: &Arc<[FrameId]>| size_of_val(&**frames) + ENTRY_BYTES;
        self.memory.set(frames + self.stacks.ids.keys().map(stack_size).sum::<usize>());
        self.is_full = false;
    }
}

impl FrameTexts {
    /// The length of `folded`, or one more.
    pub fn folded_size(&self, frames: &[FrameId]) -> usize {
        let text = |frame: &FrameId| self.frames.get(frame.0 as usize)?.as_deref();
        frames.iter().filter_map(text).map(|text| text.len() + 1).sum()
    }

    /// The folded text of a stack, root first, joined by `;`.
    pub fn folded(&self, leaf_first: &[FrameId]) -> String {
        let text = |frame: &FrameId| self.frames.get(frame.0 as usize)?.as_deref();
        let mut folded = String::with_capacity(self.folded_size(leaf_first));
        for text in leaf_first.iter().rev().filter_map(text) {
            if !folded.is_empty() {
                folded.push(';');
            }
            folded.push_str(text);
        }
        folded
    }
}

impl<T: ?Sized + Eq + std::hash::Hash> IdTable<T>
where
    for<'a> Arc<T>: From<&'a T>,
{
    fn len(&self) -> usize {
        self.ids.len()
    }

    /// The id of an item, and whether it is new; None if it would be and there is no room.
    fn get_or_insert(&mut self, item: &T, room: bool) -> Option<(u32, bool)> {
        match self.ids.get(item) {
            Some(&id) => Some((id, false)),
            None if room => Some((self.insert(item), true)),
            None => None,
        }
    }

    fn insert(&mut self, item: &T) -> u32 {
        let item: Arc<T> = item.into();
        let id = self.free.pop().unwrap_or(self.items.len() as u32);
        match self.items.get_mut(id as usize) {
            Some(slot) => *slot = Some(Arc::clone(&item)),
            None => self.items.push(Some(Arc::clone(&item))),
        }
        self.ids.insert(item, id);
        id
    }

    fn retain(&mut self, mut keep: impl FnMut(u32) -> bool) {
        let (items, free) = (&mut self.items, &mut self.free);
        self.ids.retain(|_, &mut id| {
            let keep_it = keep(id);
            if !keep_it {
                items[id as usize] = None;
                free.push(id);
            }
            keep_it
        });
        self.ids.shrink_to(self.ids.len() * 2);
    }
}

impl<T: ?Sized> Default for IdTable<T> {
    fn default() -> IdTable<T> {
        IdTable { ids: FxHashMap::default(), items: Vec::new(), free: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(function: &str) -> Call<'_> {
        Call { function, file: "", line: 0 }
    }

    fn text(interner: &StackInterner, stack: StackId) -> Option<String> {
        Some(interner.frame_texts().folded(&interner.frames_of(stack)?))
    }

    #[test]
    fn equal_stacks_have_one_number_and_give_their_text_back() {
        let mut interner = StackInterner::new(10);
        let frames = [
            interner.intern_frame(&Call { function: "leaf", file: "a;b.py", line: 7 }),
            interner.intern_frame(&call("root")),
        ];
        let (stack, truncated) = interner.intern_stack(&frames, 10);
        assert_eq!(interner.intern_stack(&frames, 10), (stack, false));
        assert_eq!(text(&interner, stack).unwrap(), "root;leaf (a%3Bb.py:7)");
        assert!(!truncated);
        assert_eq!(interner.intern_stack(&[], 10), (StackId::NO_FRAMES, false));
        assert_eq!(text(&interner, StackId::NO_FRAMES).unwrap(), NO_FRAMES);
    }

    #[test]
    fn a_stack_goes_on_in_another() {
        let mut interner = StackInterner::new(10);
        let [root, run, leaf] = ["root", "run", "leaf"].map(|name| interner.intern_frame(&call(name)));
        let outer = interner.intern_stack(&[run, root], 10).0;
        let inner = interner.intern_stack(&[leaf], 10).0;
        let (joined, cut) = interner.join(outer, inner, 10);
        assert_eq!((text(&interner, joined).unwrap().as_str(), cut), ("root;run;leaf", false));
        let (joined, cut) = interner.join(outer, inner, 2);
        assert_eq!((text(&interner, joined).unwrap().as_str(), cut), ("root;(truncated)", true));
        assert_eq!(interner.join(outer, StackId::NO_FRAMES, 10).0, outer);
        assert_eq!(interner.join(StackId::NO_FRAMES, inner, 10).0, inner);
        assert_eq!(interner.join(outer, StackId::OTHER, 10).0, StackId::OTHER);
        assert_eq!(interner.join(StackId::OTHER, inner, 10).0, StackId::OTHER);
    }

    #[test]
    fn a_deep_stack_keeps_root_and_leaf_and_shows_the_cut() {
        let mut interner = StackInterner::new(10);
        let frames = ["f5", "f4", "f3", "f2", "f1"].map(|name| interner.intern_frame(&call(name)));
        let mut cut = |depth| {
            let (stack, truncated) = interner.intern_stack(&frames, depth);
            (text(&interner, stack).unwrap(), truncated)
        };
        assert_eq!(cut(5), ("f1;f2;f3;f4;f5".into(), false));
        assert_eq!(cut(4), ("f1;f2;(truncated);f5".into(), true));
        assert_eq!(cut(3), ("f1;(truncated);f5".into(), true));
        assert_eq!(cut(2), ("f1;(truncated)".into(), true));
        assert_eq!(cut(1), ("(truncated)".into(), true));
    }

    #[test]
    fn what_is_new_in_a_full_book_is_other() {
        let mut interner = StackInterner::new(1);
        let frames = ["a", "b"].map(|name| interner.intern_frame(&call(name)));
        let (first, _) = interner.intern_stack(&frames[..1], 10);
        assert_eq!(interner.intern_stack(&frames[1..], 10), (StackId::OTHER, false));
        assert_eq!(interner.intern_stack(&frames[..1], 10), (first, false));
        assert_eq!(text(&interner, StackId::OTHER).unwrap(), OTHER);
        let many: Vec<_> = (0..100).map(|n| interner.intern_frame(&call(&n.to_string()))).collect();
        assert_eq!(many.last(), Some(&FrameId::OTHER));
        assert_eq!(interner.intern_stack(&[frames[0], FrameId::OTHER], 10), (StackId::OTHER, false));
    }

    #[test]
    fn texts_take_no_more_memory_than_they_may_and_room_comes_back() {
        let mut interner = StackInterner::new(1000);
        let mut intern = |n: usize| {
            let frame = interner.intern_frame(&call(&format!("{n}{}", "x".repeat(1 << 20))));
            (interner.intern_stack(&[frame], 10).0, interner.is_full())
        };
        let stacks: Vec<_> = (0..40).map(&mut intern).collect();
        assert_eq!(stacks.iter().filter(|stack| stack.0 != StackId::OTHER).count(), 31);
        assert_eq!(stacks[..31].iter().filter(|stack| stack.1).count(), 0);
        assert!(stacks[31..].iter().all(|stack| stack.1));
        interner.retain(|stack| stack == stacks[0].0);
        assert!(!interner.is_full() && interner.memory.used() < 2 << 20);
        let deep = vec![interner.intern_frame(&call("f")); MAX_BYTES / size_of::<FrameId>()];
        assert_eq!(interner.intern_stack(&deep, usize::MAX).0, StackId::OTHER);
        assert_ne!(interner.intern_stack(&deep, 1000).0, StackId::OTHER);
    }

    #[test]
    fn dropped_numbers_are_given_out_again_and_kept_ones_stay() {
        let mut interner = StackInterner::new(10);
        let frames = ["a", "b", "c"].map(|name| interner.intern_frame(&call(name)));
        let stacks = [0, 1, 2].map(|n| interner.intern_stack(&frames[n..n + 1], 10).0);
        let before = interner.generation();
        interner.retain(|stack| stack == stacks[1]);
        assert_ne!(interner.generation(), before);
        assert_eq!(interner.stack_count(), StackId::FIXED.len() + 1);
        assert_eq!(text(&interner, stacks[1]).unwrap(), "b");
        assert_eq!(text(&interner, stacks[0]), None);
        for n in 0..1000 {
            let frame = interner.intern_frame(&call(&n.to_string()));
            let stack = interner.intern_stack(&[frame], 10).0;
            assert_eq!(text(&interner, stack).unwrap(), n.to_string());
            interner.retain(|_| false);
        }
        assert!(interner.stacks.items.len() < 10 && interner.frames.items.len() < 10);
    }

    #[test]
    fn a_thread_that_cannot_be_read_is_known_by_the_root_of_its_last_stack() {
        let mut interner = StackInterner::new(10);
        let frames = ["leaf", "root"].map(|name| interner.intern_frame(&call(name)));
        let (last, _) = interner.intern_stack(&frames, 10);
        let unread = interner.unread_stack(Some(last));
        assert_eq!(text(&interner, unread).unwrap(), "root;(unread)");
        assert_eq!(interner.unread_stack(Some(unread)), unread);
        for nothing in [None, Some(StackId::OTHER), Some(StackId::NO_FRAMES), Some(StackId(99))] {
            let unread = interner.unread_stack(nothing);
            assert_eq!(text(&interner, unread).unwrap(), UNREAD);
        }
    }
}
