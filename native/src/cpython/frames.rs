//! The frames of one thread of Python 3.11 and later, newest first.
//!
//! Frames of functions lie side by side in the chunks of the thread's data stack, which are read whole. Frames of
//! generators and coroutines lie in their objects, and entry frames lie on the C stack. These are read one by one;
//! the ones of the last walk are read together with the newest chunk, as most recur.
//!
//! Python 3.11 and 3.12 enter a call in several steps, and a thread can be stopped between any two of them:
//!
//! - When C code calls Python (3.11 runs every generator and coroutine that way) a `_PyCFrame` becomes the thread's
//!   newest a few instructions before its `current_frame` is set. Until then that field has whatever the C stack
//!   held before: mostly a frame of an earlier call, which has ended or runs elsewhere by now.
//! - When Python calls Python the new frame may become current before its `previous` is set, as compilers order the
//!   two. Until then `previous` is the caller of an earlier call; in a generator's frame it is null.
//!
//! A walk along these fields would find a leaf under a function that never called it, or a stack without its root.
//! In a linked stack a current frame on the thread's data stack lies below its top and has begun an instruction,
//! and the oldest frame of a `_PyCFrame` was called from the frame that is current in the `_PyCFrame` before. Only
//! the thread that holds the GIL can be between the steps.

use crate::cpython::code_objects::CodePosition;
use crate::cpython::cpython_layout::{
    CurrentFrame, Entry, Frame as FrameFields, Layout, INSTRUCTION_BYTES, OWNED_BY_THREAD,
};
use crate::linux::memory::{word, Fault, Memory, Span};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

/// The most frames of a thread that are followed. CPython's own limit is 1,000 unless a program raises it.
pub const MAX_FRAMES: usize = 65_536;
/// The most frames of all threads together that a reading holds.
pub const MAX_ALL_FRAMES: usize = 262_144;
/// The most that is read of data stacks, a thread: enough for as many frames of a usual size.
const MAX_BYTES: usize = 16 << 20;
/// A buffer that is kept from one thread to the next is at most this long.
const MAX_KEPT_BYTES: usize = 1 << 20;
const MAX_CHUNKS: usize = 2048;
/// Frames outside the chunks that are remembered from one tick to the next.
const MAX_REMEMBERED: usize = 256;
/// The deadline is checked at the first frame, and after so many more: at worst each takes a separate read.
pub const FRAMES_PER_TIME_CHECK: usize = 64;
/// Of `_PyStackChunk`: previous chunk, size of this one, and how many words are in use once there is a newer one.
const HEADER: usize = 24;
const WORD: usize = size_of::<usize>();

/// Why a stack could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkError {
    Fault(Fault),
    /// A call is being entered.
    CallEntry,
    /// More than MAX_FRAMES frames, or MAX_ALL_FRAMES with those of other threads.
    TooDeep,
    /// The list of frames has a cycle.
    Cycle,
    /// The deadline has passed.
    Timeout,
}

/// Walks stacks, with buffers that are reused.
#[derive(Debug)]
pub struct FrameWalker {
    layout: Layout,
    fields: FrameFields,
    chunks: Vec<Chunk>,
    /// The chunk of the last frame that lay in one: mostly that of the next one as well.
    last_chunk: usize,
    /// There are no older chunks than those in `chunks`.
    all_chunks_known: bool,
    /// Frames remembered from last time and where in `bytes` they are.
    remembered: Vec<(usize, usize)>,
    spans: Vec<Span>,
    bytes: Vec<u8>,
    /// How much of `bytes` is in use.
    filled: usize,
    /// How much the walks since the last `prepare` used at most.
    needed: usize,
    /// Frames that are looked for, and how many positions there are from the newest to each, once the walk met it.
    pub roots: Vec<(usize, Option<usize>)>,
}

#[derive(Clone, Copy, Debug)]
struct Chunk {
    address: usize,
    /// The end of what is in use.
    end: usize,
    previous: usize,
    /// Where in `bytes` it is, once it was read.
    at: Option<usize>,
}

/// The fields of a frame that the walk needs.
#[derive(Clone, Copy, Debug)]
struct Frame {
    code: usize,
    previous: usize,
    instruction: usize,
    owner: u8,
    is_entry: bool,
}

impl FrameWalker {
    pub fn new(layout: &Layout, fields: FrameFields) -> FrameWalker {
        FrameWalker {
            layout: *layout,
            fields,
            chunks: Vec::new(),
            last_chunk: 0,
            all_chunks_known: false,
            remembered: Vec::new(),
            spans: Vec::new(),
            bytes: Vec::new(),
            filled: 0,
            needed: 0,
            roots: Vec::new(),
        }
    }

    /// Adds the frames of a thread to `positions`, given its PyThreadState.
    ///
    /// Stops at `deadline`. `off_stack_frames` are the frames outside the chunks: on entry those of the last walk, on
    /// return those of this one. Reports a half-entered call only with `check_call_entry`, which makes sense only for
    /// the thread that holds the GIL.
    pub fn walk(
        &mut self,
        memory: &dyn Memory,
        thread: &[u8],
        check_call_entry: bool,
        deadline: Option<Instant>,
        off_stack_frames: &mut Vec<Span>,
        positions: &mut Vec<CodePosition>,
    ) -> Result<(), WalkError> {
        let (newest, before) = self.read_ahead(memory, thread, off_stack_frames)?;
        off_stack_frames.clear();
        let at = self.fields;
        let check_call_entry = check_call_entry && before != 0 && at.entry != Entry::Linked;
        if check_call_entry {
            let [chunk, top, limit] = data_stack(&self.layout, thread);
            if (chunk..limit).contains(&newest) && newest >= top {
                return Err(WalkError::CallEntry);
            }
        }
        let (mut address, mut steps, mut entry_seen) = (newest, CycleDetector::default(), !check_call_entry);
        while address != 0 {
            if steps.is_cycle(address) {
                return Err(WalkError::Cycle);
            }
            if steps.count > MAX_FRAMES || positions.len() >= MAX_ALL_FRAMES {
                return Err(WalkError::TooDeep);
            }
            if steps.count % FRAMES_PER_TIME_CHECK == 1
                && deadline.is_some_and(|deadline| Instant::now() >= deadline)
            {
                return Err(WalkError::Timeout);
            }
            let frame = self.frame(memory, address, off_stack_frames)?;
            if steps.count == 1
                && check_call_entry
                && frame.owner == OWNED_BY_THREAD
                && !self.has_begun(frame)
            {
                return Err(WalkError::CallEntry);
            }
            if !entry_seen && frame.is_entry {
                entry_seen = true;
                if frame.previous != self.current_of(memory, before)? {
                    return Err(WalkError::CallEntry);
                }
            }
            if frame.owner < at.first_foreign_owner && frame.code != 0 {
                positions.push(CodePosition { code: frame.code, instruction: frame.instruction });
            }
            if let Some(root) = self.roots.iter_mut().find(|root| root.0 == address) {
                root.1 = Some(positions.len());
            }
            address = frame.previous;
        }
        // The root of a stack is an entry.
        if entry_seen {
            Ok(())
        } else {
            Err(WalkError::CallEntry)
        }
    }

    /// Makes room for as much as the last walks needed, before anything is stopped.
    pub fn prepare(&mut self) {
        self.needed = self.needed.max(self.filled);
        if self.bytes.len() < self.needed {
            self.bytes.resize(self.needed, 0);
        }
        self.needed = 0;
    }

    /// Frees a buffer that a usual stack does not need.
    pub fn shrink(&mut self) {
        self.needed = self.needed.max(self.filled);
        if self.bytes.len() > MAX_KEPT_BYTES {
            self.bytes = Vec::new();
            self.filled = 0;
        }
    }

    /// A hash of all that was read for the last walk.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.bytes[..self.filled].hash(&mut hasher);
        hasher.finish()
    }

    /// Reads what the walk is likely to need. Returns the newest frame and, where there are any, the `_PyCFrame`
    /// before.
    fn read_ahead(
        &mut self,
        memory: &dyn Memory,
        thread: &[u8],
        off_stack_frames: &[Span],
    ) -> Result<(usize, usize), WalkError> {
        (self.last_chunk, self.needed) = (0, self.needed.max(self.filled));
        self.chunks.clear();
        self.remembered.clear();
        self.spans.clear();
        let mut size = 0;
        let mut newest = match self.layout.thread.current {
            CurrentFrame::Frame(frame) => (word(thread, frame), 0),
            CurrentFrame::CFrame { pointer, frame } => {
                self.spans
                    .push(Span { address: word(thread, pointer).wrapping_add(frame), length: 2 * WORD });
                size = 2 * WORD;
                (0, 0)
            }
        };
        let cframes = self.spans.len();
        let [chunk, top, limit] = data_stack(&self.layout, thread);
        // While a chunk is added or given back the three do not fit together: then frames are read one by one.
        if chunk != 0 && (chunk..=limit).contains(&top) && (HEADER..MAX_BYTES).contains(&(top - chunk)) {
            self.spans.push(Span { address: chunk, length: top - chunk });
            self.chunks.push(Chunk { address: chunk, end: top, previous: 0, at: Some(size) });
            size += top - chunk;
        }
        let needed = self.spans.len();
        for &span in off_stack_frames {
            self.spans.push(span);
            self.remembered.push((span.address, size));
            size += span.length;
        }
        self.filled = 0;
        self.reserve(size);
        let read = memory.read_many(&self.spans, &mut self.bytes[..size]);
        if read < needed {
            return Err(WalkError::Fault(Fault { address: self.spans[read].address }));
        }
        self.remembered.truncate(read - needed);
        self.remembered.sort_unstable();
        if cframes > 0 {
            newest = (word(&self.bytes, 0), word(&self.bytes, WORD));
        }
        self.all_chunks_known = self.chunks.is_empty();
        if let Some(chunk) = self.chunks.first_mut() {
            chunk.previous = word(&self.bytes, chunk.at.unwrap_or(0));
        }
        Ok(newest)
    }

    fn frame(
        &mut self,
        memory: &dyn Memory,
        address: usize,
        off_stack_frames: &mut Vec<Span>,
    ) -> Result<Frame, WalkError> {
        let size = self.fields.size;
        if let Some(at) = self.in_chunks(memory, address)? {
            return Ok(self.decode(&self.bytes[at..at + size]));
        }
        if off_stack_frames.len() < MAX_REMEMBERED {
            off_stack_frames.push(Span { address, length: size });
        }
        if let Ok(n) = self.remembered.binary_search_by_key(&address, |&(address, _)| address) {
            let at = self.remembered[n].1;
            return Ok(self.decode(&self.bytes[at..at + size]));
        }
        let mut bytes = [0; 512];
        let bytes = bytes.get_mut(..size).ok_or(Fault { address })?;
        memory.read(address, bytes)?;
        Ok(self.decode(bytes))
    }

    /// Where in `bytes` a frame is that lies in a chunk.
    fn in_chunks(&mut self, memory: &dyn Memory, address: usize) -> Result<Option<usize>, WalkError> {
        let size = self.fields.size;
        let holds =
            |chunk: &Chunk| (chunk.address..chunk.end).contains(&address) && chunk.end - address >= size;
        let mut n = self.last_chunk;
        if !self.chunks.get(n).is_some_and(holds) {
            let known = self.chunks.iter().skip(n).position(holds).map(|further| n + further);
            n = match known.or_else(|| self.chunks.iter().position(holds)) {
                Some(known) => known,
                None => loop {
                    if self.all_chunks_known || !self.load_older_header(memory)? {
                        return Ok(None);
                    }
                    if self.chunks.last().is_some_and(holds) {
                        break self.chunks.len() - 1;
                    }
                },
            };
            self.last_chunk = n;
        }
        Ok(Some(self.load(memory, n)? + address - self.chunks[n].address))
    }

    /// Reads a chunk of which only the header was read. Stacks are walked from new to old.
    fn load(&mut self, memory: &dyn Memory, n: usize) -> Result<usize, WalkError> {
        let chunk = self.chunks[n];
        if let Some(at) = chunk.at {
            return Ok(at);
        }
        let (at, length) = (self.filled, chunk.end - chunk.address);
        if at + length > MAX_BYTES {
            return Err(WalkError::TooDeep);
        }
        self.reserve(length);
        memory.read(chunk.address, &mut self.bytes[at..at + length])?;
        self.chunks[n].at = Some(at);
        Ok(at)
    }

    fn reserve(&mut self, length: usize) {
        self.filled += length;
        if self.bytes.len() < self.filled {
            self.bytes.resize(self.filled, 0);
        }
    }

    /// Reads the header of the next older chunk; false if there is none.
    fn load_older_header(&mut self, memory: &dyn Memory) -> Result<bool, WalkError> {
        let previous = self.chunks.last().map_or(0, |chunk| chunk.previous);
        if previous == 0 || self.chunks.len() == MAX_CHUNKS {
            self.all_chunks_known = true;
            return Ok(false);
        }
        let mut header = [0; HEADER];
        memory.read(previous, &mut header)?;
        let [before, size, used] = [0, WORD, 2 * WORD].map(|at| word(&header, at));
        let length = used.saturating_mul(WORD).saturating_add(HEADER);
        if length > size.min(MAX_BYTES) {
            return Err(WalkError::Fault(Fault { address: previous }));
        }
        let end = previous.saturating_add(length);
        self.chunks.push(Chunk { address: previous, end, previous: before, at: None });
        Ok(true)
    }

    fn decode(&self, bytes: &[u8]) -> Frame {
        let at = self.fields;
        Frame {
            code: word(bytes, at.code) & !at.tag,
            previous: word(bytes, at.previous),
            instruction: word(bytes, at.instruction),
            owner: bytes[at.owner],
            is_entry: match at.entry {
                Entry::Flag(flag) => bytes[flag] != 0,
                Entry::Foreign => bytes[at.owner] >= at.first_foreign_owner,
                Entry::Linked => false,
            },
        }
    }

    fn has_begun(&self, frame: Frame) -> bool {
        let first = frame.code.wrapping_add(self.layout.code.instructions);
        frame.instruction != first.wrapping_sub(INSTRUCTION_BYTES)
    }

    /// The current frame of a `_PyCFrame`.
    fn current_of(&self, memory: &dyn Memory, cframe: usize) -> Result<usize, Fault> {
        match self.layout.thread.current {
            CurrentFrame::Frame(_) => Ok(0),
            CurrentFrame::CFrame { frame, .. } => memory.word(cframe.wrapping_add(frame)),
        }
    }
}

/// Newest chunk, top and limit of a thread's data stack.
fn data_stack(layout: &Layout, thread: &[u8]) -> [usize; 3] {
    [0, 1, 2].map(|n| word(thread, layout.thread.chunk + n * WORD))
}

impl From<Fault> for WalkError {
    fn from(fault: Fault) -> WalkError {
        WalkError::Fault(fault)
    }
}

/// Counts the steps along a linked list and detects a cycle.
#[derive(Clone, Copy, Debug, Default)]
pub struct CycleDetector {
    pub count: usize,
    mark: usize,
}

impl CycleDetector {
    /// Goes to the next address. True if the list leads back to itself, which takes a few rounds to be seen:
    /// the walk comes back to where it was when its count was a power of two (Brent's algorithm).
    pub fn is_cycle(&mut self, address: usize) -> bool {
        if self.count > 0 && address == self.mark {
            return true;
        }
        self.count += 1;
        if self.count.is_power_of_two() {
            self.mark = address;
        }
        false
    }
}
