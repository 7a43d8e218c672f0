//! The thread states of an interpreter, and the holder of its GIL.

use crate::cpython::code_objects::FreedCode;
use crate::cpython::cpython_layout::{GilLayout, Layout};
use crate::cpython::frames::CycleDetector;
use crate::linux::memory::{int, word, Fault, Memory, Span};
use std::ops::Range;

/// The most threads that are followed, of all interpreters together.
pub const MAX_THREADS: usize = 16_384;
/// The most that is read of their states.
const MAX_BYTES: usize = 16 << 20;
/// A buffer that is kept from one reading to the next is at most this long.
const MAX_KEPT_BYTES: usize = 1 << 20;
/// So many states of last time are compared with the next one of the list.
const MAX_SKIPPED: usize = 256;
const WORD: usize = size_of::<usize>();

/// The fields of an interpreter state that every reading needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterpreterHead {
    /// The thread state that holds the GIL, or 0.
    pub holder: usize,
    /// The kernel's id of the holder, or its pthread_t (`Thread::kernel_thread`).
    pub kernel_thread: usize,
    pub switches: u64,
    /// The newest thread state.
    pub threads: usize,
    pub freed: Option<FreedCode>,
}

/// Addresses that a reading expects to be unchanged. If they are, a single read is enough.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected {
    /// Where the GIL is.
    gil: usize,
    /// The thread state that held it last.
    holder: usize,
}

/// In `_gil_runtime_state` of CPython 3.7 to 3.15, behind the interval, the holder, the state and the counter: `cond`,
/// `mutex`, `switch_cond` and `switch_mutex` (Include/internal/pycore_gil.h). glibc waits on words inside of them.
const GIL_LOCKS_OFFSET: usize = 32;
const GIL_LOCKS_BYTES: usize = 2 * (size_of::<libc::pthread_cond_t>() + size_of::<libc::pthread_mutex_t>());
/// Where `switch_number` is in it.
const GIL_SWITCHES_OFFSET: usize = 24;

impl Expected {
    /// Where the condition variables and mutexes of the GIL are, as of the last reading; empty if there is none.
    pub fn gil_locks(&self, layout: &Layout) -> Range<usize> {
        let gil = match layout.gil {
            GilLayout::Runtime { switches, .. } => {
                layout.runtime.wrapping_add(switches).wrapping_sub(GIL_SWITCHES_OFFSET)
            }
            GilLayout::Interpreter { .. } => self.gil,
            GilLayout::FreeThreaded { .. } => return 0..0,
        };
        let start = gil.wrapping_add(GIL_LOCKS_OFFSET);
        start..start.wrapping_add(GIL_LOCKS_BYTES)
    }
}

/// Words of a head.
const HEAD_WORDS: usize = 7;
/// How often a head is read again because an expectation was wrong: in a running process the GIL may keep moving
/// to other threads.
const MAX_TRIES: usize = 100;

impl InterpreterHead {
    pub fn read(
        layout: &Layout,
        memory: &dyn Memory,
        interpreter: usize,
        expected: &mut Expected,
    ) -> Result<InterpreterHead, Fault> {
        let mut bytes = [0; HEAD_WORDS * WORD];
        for _ in 0..MAX_TRIES {
            let spans = InterpreterHead::spans(layout, interpreter, *expected);
            let read = memory.read_many(&spans, &mut bytes);
            if let Some(head) = InterpreterHead::parse(layout, interpreter, expected, &bytes, read)? {
                return Ok(head);
            }
        }
        Err(Fault { address: interpreter })
    }

    /// Where its words are; in place of one that a version does not have, `threads` is read once more. The last one
    /// may be of a thread that is no more.
    fn spans(layout: &Layout, interpreter: usize, expected: Expected) -> [Span; HEAD_WORDS] {
        let at = layout.interpreter;
        let of = |base: usize, offset: usize| Span { address: base.wrapping_add(offset), length: WORD };
        let field = |offset| of(interpreter, offset);
        let [pointer, holder, locked, switches] = match layout.gil {
            GilLayout::Runtime { holder, switches, .. } => {
                let runtime = |offset| of(layout.runtime, offset);
                [field(at.threads), runtime(holder), field(at.threads), runtime(switches)]
            }
            GilLayout::Interpreter { pointer, holder, locked, switches } => {
                let gil = |offset| of(expected.gil, offset);
                [field(pointer), gil(holder), gil(locked), gil(switches)]
            }
            GilLayout::FreeThreaded { .. } => [field(at.threads); 4],
        };
        let generation = field(at.code_generation.unwrap_or(at.threads));
        let kernel_thread = match expected.holder {
            0 => field(at.threads),
            holder => of(holder, layout.thread.kernel_thread()),
        };
        [pointer, field(at.threads), generation, holder, locked, switches, kernel_thread]
    }

    /// None if the expectation was wrong; it is corrected then.
    fn parse(
        layout: &Layout,
        interpreter: usize,
        expected: &mut Expected,
        bytes: &[u8],
        read: usize,
    ) -> Result<Option<InterpreterHead>, Fault> {
        let missing = || Fault {
            address: InterpreterHead::spans(layout, interpreter, *expected)[read.min(HEAD_WORDS - 1)].address,
        };
        if read < 3 {
            return Err(missing());
        }
        let [pointer, threads, count, holder, locked, switches, kernel_thread] =
            [0, 1, 2, 3, 4, 5, 6].map(|n| word(bytes, n * WORD));
        let of_interpreter = matches!(layout.gil, GilLayout::Interpreter { .. });
        if of_interpreter && pointer != expected.gil {
            expected.gil = pointer;
            return Ok(None);
        }
        if read < HEAD_WORDS - 1 {
            return Err(missing());
        }
        // Not yet made: -1.
        let held = layout.has_gil() && (!of_interpreter || int(&locked.to_ne_bytes(), 0) > 0);
        let holder = if held { holder } else { 0 };
        if holder != 0 && holder != expected.holder {
            expected.holder = holder;
            return Ok(None);
        }
        if read < HEAD_WORDS {
            if holder != 0 {
                return Err(missing());
            }
            // The last holder has ended.
            expected.holder = 0;
            return Ok(None);
        }
        let freed = layout.interpreter.code_generation.map(|_| FreedCode { interpreter, count });
        let kernel_thread = if holder == 0 { 0 } else { kernel_thread };
        Ok(Some(InterpreterHead { holder, kernel_thread, switches: switches as u64, threads, freed }))
    }
}

/// Thread states, in buffers that are reused.
#[derive(Debug)]
pub struct ThreadStates {
    size: usize,
    /// Their addresses, in the order of the interpreter's list, and where in `bytes` they are.
    entries: Vec<(usize, usize)>,
    spans: Vec<Span>,
    bytes: Vec<u8>,
}

impl ThreadStates {
    pub fn new(layout: &Layout) -> ThreadStates {
        ThreadStates { size: layout.thread.size, entries: Vec::new(), spans: Vec::new(), bytes: Vec::new() }
    }

    /// Reads an interpreter's head and its list of threads. Those of last time, in their order, are read at once,
    /// as the list is mostly as it was. None if `interpreters`, the oldest first, are no longer all there are.
    ///
    /// # Errors
    /// If it is no list of this interpreter's threads.
    pub fn read(
        &mut self,
        layout: &Layout,
        memory: &dyn Memory,
        (interpreter, interpreters): (usize, &[usize]),
        expected: &mut Expected,
        previous: impl Iterator<Item = usize>,
    ) -> Result<Option<InterpreterHead>, Fault> {
        let size = self.size;
        let links = interpreters.len() + 1;
        let before = links + HEAD_WORDS;
        self.spans.clear();
        self.spans.extend(layout.links(interpreters));
        self.spans.extend(InterpreterHead::spans(layout, interpreter, *expected));
        self.spans.extend(previous.map(|address| Span { address, length: size }));
        self.bytes.resize(before * WORD + (self.spans.len() - before) * size, 0);
        let mut read = memory.read_many(&self.spans, &mut self.bytes);
        if read < links || !Layout::are_linked(interpreters, &self.bytes) {
            return Ok(None);
        }
        let head = &self.bytes[links * WORD..];
        let head = match InterpreterHead::parse(layout, interpreter, expected, head, read - links)? {
            Some(head) => head,
            // The threads are to be read after it.
            None => {
                let head = InterpreterHead::read(layout, memory, interpreter, expected)?;
                read = before + memory.read_many(&self.spans[before..], &mut self.bytes[before * WORD..]);
                head
            }
        };
        self.entries.clear();
        let (mut next, mut steps, mut matched) = (head.threads, CycleDetector::default(), before);
        while next != 0 {
            if steps.is_cycle(next) || steps.count > MAX_THREADS || self.bytes.len() > MAX_BYTES {
                return Err(Fault { address: next });
            }
            // Mostly the next of last time's; if not, some have ended.
            let read_spans =
                &self.spans[matched.min(read)..read.min(matched + MAX_SKIPPED).max(matched.min(read))];
            let at = match read_spans.iter().position(|span| span.address == next) {
                Some(skipped) => {
                    matched += skipped + 1;
                    before * WORD + (matched - 1 - before) * size
                }
                None => {
                    let at = self.bytes.len();
                    self.bytes.resize(at + size, 0);
                    memory.read(next, &mut self.bytes[at..])?;
                    at
                }
            };
            let state = &self.bytes[at..at + size];
            if word(state, layout.thread.interpreter) != interpreter {
                return Err(Fault { address: next });
            }
            self.entries.push((next, at));
            next = word(state, layout.thread.next);
        }
        Ok(Some(head))
    }

    /// Each state's address and its bytes.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &[u8])> {
        self.entries.iter().map(|&(address, at)| (address, &self.bytes[at..at + self.size]))
    }

    /// The bytes of the state at a place in the list.
    pub fn get(&self, n: usize) -> Option<&[u8]> {
        self.entries.get(n).map(|&(_, at)| &self.bytes[at..at + self.size])
    }

    /// Frees a buffer that a usual number of threads does not need.
    pub fn shrink(&mut self) {
        if self.bytes.len() > MAX_KEPT_BYTES {
            (self.bytes, self.spans, self.entries) = (Vec::new(), Vec::new(), Vec::new());
        }
    }

    pub fn count(&self) -> usize {
        self.entries.len()
    }
}
