//! The frames of one thread up to Python 3.10, newest first.
//!
//! Each is an object on the heap (PyFrameObject) that points to its caller, and becomes current in one step. So a walk
//! needs the address of each frame from the one before. To save reads, a walk remembers where in memory it was, as
//! spans with neighbouring frames in one. The next walk of the thread reads many of them at once, as most recur. The
//! frames of a deep recursion lie side by side, those of each function in a run of its own: once a walk finds that, it
//! reads larger windows of memory.

use crate::cpython::code_objects::CodePosition;
use crate::cpython::cpython_layout::FrameObject;
use crate::cpython::frames::{CycleDetector, WalkError, FRAMES_PER_TIME_CHECK, MAX_ALL_FRAMES, MAX_FRAMES};
use crate::linux::memory::{int, word, Memory, Span};
use std::time::Instant;

/// Frames with no more than this between them are remembered as one span: another span costs more to read.
const MAX_GAP: usize = 1024;
const MAX_SPAN: usize = 64 << 10;
/// The most spans that are remembered, a thread.
const MAX_REMEMBERED: usize = 16_384;
/// So many remembered spans are searched for the next frame: some frames have ended.
const MAX_SKIPPED: usize = 1024;
/// The most that is read at once.
const MAX_BATCH: usize = 256 << 10;
const MAX_BATCH_SPANS: usize = 1024;
/// A buffer that is kept from one tick to the next is at most this long.
const MAX_KEPT_BYTES: usize = 128 << 10;
/// Runs that are followed at a time.
const RUNS: usize = 4;
/// As much is read of a run.
const WINDOW: usize = 32 << 10;
/// So many frames side by side are one.
const NEIGHBOURS: u32 = 3;
/// Enough of any version's PyFrameObject.
const FRAME_BYTES: usize = 128;

/// Walks stacks, with buffers that are reused.
#[derive(Debug)]
pub struct FrameObjectWalker {
    layout: FrameObject,
    /// Of PyThreadState: the newest frame.
    current: usize,
    /// The last batch of remembered spans, in the order of the walk, and the last of them in which a frame was.
    pieces: Vec<Piece>,
    piece: usize,
    bytes: Vec<u8>,
    runs: [Run; RUNS],
    /// The run that a frame without neighbours replaces.
    oldest_run: usize,
    /// The buffer of the spans of another walk.
    spare: Vec<Span>,
}

/// Memory that was read.
#[derive(Clone, Copy, Debug)]
struct Piece {
    span: Span,
    /// Where in `bytes` it is.
    at: usize,
}

/// Frames side by side.
#[derive(Debug, Default)]
struct Run {
    last: usize,
    descending: bool,
    neighbours: u32,
    /// The memory that was read last.
    start: usize,
    window: Vec<u8>,
}

impl FrameObjectWalker {
    pub fn new(layout: FrameObject, current: usize) -> FrameObjectWalker {
        FrameObjectWalker {
            layout,
            current,
            pieces: Vec::new(),
            piece: 0,
            bytes: Vec::new(),
            runs: Default::default(),
            oldest_run: 0,
            spare: Vec::new(),
        }
    }

    /// Adds the frames of a thread to `positions`, given its PyThreadState.
    ///
    /// Stops at `deadline`. `remembered` is where the frames were: on entry those of the last walk, on return those
    /// of this one, as far as it came.
    pub fn walk(
        &mut self,
        memory: &dyn Memory,
        thread: &[u8],
        deadline: Option<Instant>,
        remembered: &mut Vec<Span>,
        positions: &mut Vec<CodePosition>,
    ) -> Result<(), WalkError> {
        let expected = std::mem::replace(remembered, std::mem::take(&mut self.spare));
        remembered.clear();
        let walked =
            self.walk_from(memory, word(thread, self.current), deadline, &expected, remembered, positions);
        self.spare = expected;
        walked
    }

    fn walk_from(
        &mut self,
        memory: &dyn Memory,
        newest: usize,
        deadline: Option<Instant>,
        mut expected: &[Span],
        remembered: &mut Vec<Span>,
        positions: &mut Vec<CodePosition>,
    ) -> Result<(), WalkError> {
        self.pieces.clear();
        self.runs.iter_mut().for_each(Run::clear);
        let (mut address, mut steps) = (newest, CycleDetector::default());
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
                let batch = self.pieces.iter().skip(self.piece).map(|piece| piece.span);
                remembered.extend(batch.chain(expected.iter().copied()));
                remembered.truncate(MAX_REMEMBERED);
                return Err(WalkError::Timeout);
            }
            let mut bytes = [0; FRAME_BYTES];
            let bytes = &mut bytes[..self.layout.size];
            self.read(memory, address, &mut expected, bytes)?;
            remember(remembered, Span { address, length: self.layout.size });
            let code = word(bytes, self.layout.code);
            let instruction = int(bytes, self.layout.instruction) as isize;
            let instruction = instruction.wrapping_mul(self.layout.instruction_unit as isize);
            positions.push(CodePosition { code, instruction: code.wrapping_add_signed(instruction) });
            address = word(bytes, self.layout.previous);
        }
        Ok(())
    }

    /// Frees buffers that a usual stack does not need.
    pub fn shrink(&mut self) {
        self.runs = Default::default();
        if self.bytes.len() > MAX_KEPT_BYTES || self.spare.capacity() > MAX_BATCH_SPANS {
            (self.bytes, self.pieces, self.spare) = (Vec::new(), Vec::new(), Vec::new());
        }
    }

    /// Reads a frame, if need be with others that are expected next.
    fn read(
        &mut self,
        memory: &dyn Memory,
        address: usize,
        expected: &mut &[Span],
        frame: &mut [u8],
    ) -> Result<(), WalkError> {
        let wanted = Span { address, length: frame.len() };
        let run = self.follow(wanted);
        if self.runs[run].copy(wanted, frame) || self.copy(wanted, frame) {
            return Ok(());
        }
        let searched = &expected[..expected.len().min(MAX_SKIPPED)];
        if let Some(skipped) = searched.iter().position(|span| contains(*span, wanted)) {
            *expected = &expected[skipped..];
            let read = self.read_batch(memory, expected);
            // The first of them may be no more.
            *expected = &expected[read.max(1)..];
            if self.copy(wanted, frame) {
                return Ok(());
            }
        }
        if self.runs[run].load(memory, wanted) && self.runs[run].copy(wanted, frame) {
            return Ok(());
        }
        Ok(memory.read(address, frame)?)
    }

    /// The run to which a frame belongs.
    fn follow(&mut self, frame: Span) -> usize {
        let run = self.runs.iter().position(|run| run.is_near(frame));
        let run = run.unwrap_or_else(|| {
            self.oldest_run = (self.oldest_run + 1) % RUNS;
            self.runs[self.oldest_run].neighbours = 0;
            self.oldest_run
        });
        self.runs[run].add(frame.address);
        run
    }

    /// Copies a frame from the batch.
    fn copy(&mut self, wanted: Span, frame: &mut [u8]) -> bool {
        let first = self.piece.saturating_sub(RUNS);
        let ahead = self.pieces.get(first..).unwrap_or_default();
        let Some(skipped) = ahead.iter().position(|piece| contains(piece.span, wanted)) else { return false };
        self.piece = first + skipped;
        let Piece { span, at } = self.pieces[self.piece];
        frame.copy_from_slice(&self.bytes[at + wanted.address - span.address..][..frame.len()]);
        true
    }

    /// Replaces the pieces by the first of these spans, as many as one batch has. Gives how many were read.
    fn read_batch(&mut self, memory: &dyn Memory, spans: &[Span]) -> usize {
        self.pieces.clear();
        self.piece = 0;
        let mut size = 0;
        for &span in spans.iter().take(MAX_BATCH_SPANS) {
            if size + span.length > MAX_BATCH {
                break;
            }
            self.pieces.push(Piece { span, at: size });
            size += span.length;
        }
        if self.bytes.len() < size {
            self.bytes.resize(size, 0);
        }
        let read = memory.read_many(&spans[..self.pieces.len()], &mut self.bytes[..size]);
        self.pieces.truncate(read);
        read
    }
}

impl Run {
    fn clear(&mut self) {
        (self.last, self.neighbours) = (0, 0);
        self.window.clear();
    }

    fn is_near(&self, frame: Span) -> bool {
        self.last != 0 && frame.address.abs_diff(self.last) <= frame.length + MAX_GAP
    }

    fn add(&mut self, address: usize) {
        let descending = address < self.last;
        if descending != self.descending {
            self.neighbours = 0;
        }
        self.neighbours = self.neighbours.saturating_add(1);
        (self.last, self.descending) = (address, descending);
    }

    /// Copies a frame from the window.
    fn copy(&self, wanted: Span, frame: &mut [u8]) -> bool {
        let inside = contains(Span { address: self.start, length: self.window.len() }, wanted);
        if inside {
            frame.copy_from_slice(&self.window[wanted.address - self.start..][..frame.len()]);
        }
        inside
    }

    /// Reads the window that begins with a frame, if there are enough neighbours.
    fn load(&mut self, memory: &dyn Memory, frame: Span) -> bool {
        if self.neighbours < NEIGHBOURS {
            return false;
        }
        self.window.resize(WINDOW, 0);
        self.start = match self.descending {
            true => frame.address.saturating_sub(WINDOW - frame.length),
            false => frame.address,
        };
        let read = memory.read(self.start, &mut self.window).is_ok();
        if !read {
            // The edge of mapped memory.
            self.window.clear();
            self.neighbours = 0;
        }
        read
    }
}

fn contains(outer: Span, inner: Span) -> bool {
    let Some(offset) = inner.address.checked_sub(outer.address) else { return false };
    offset.checked_add(inner.length).is_some_and(|end| end <= outer.length)
}

/// Adds where a frame is, to one of the last runs if it can be.
fn remember(spans: &mut Vec<Span>, frame: Span) {
    let recent = spans.len().saturating_sub(RUNS);
    for span in spans[recent..].iter_mut().rev() {
        let start = span.address.min(frame.address);
        let ends = [*span, frame].map(|span| span.address.saturating_add(span.length));
        let length = ends[0].max(ends[1]) - start;
        if length <= MAX_SPAN.min(span.length + frame.length + MAX_GAP) {
            *span = Span { address: start, length };
            return;
        }
    }
    if spans.len() < MAX_REMEMBERED {
        spans.push(frame);
    }
}

#[cfg(test)]
mod tests;
