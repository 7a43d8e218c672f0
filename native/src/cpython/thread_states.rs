//! The states of an interpreter's threads, and who of them holds its GIL.

use crate::cpython::code_objects::Freed;
use crate::cpython::cpython_layout::{Gil, Layout};
use crate::cpython::frames::Steps;
use crate::linux::memory::{int, word, Fault, Memory, Span};

/// The most threads of an interpreter that are followed.
const MAX_THREADS: usize = 32_768;
const WORD: usize = size_of::<usize>();

/// What an interpreter says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The thread state that holds the GIL, or 0.
    pub holder: usize,
    /// The `native_id` of the holder.
    pub native_id: usize,
    pub switches: u64,
    /// The newest thread state.
    pub threads: usize,
    pub freed: Option<Freed>,
}

/// What a reading expects to find as it was: with that right, it is a single one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected {
    /// Where the GIL is.
    gil: usize,
    /// The thread state that held it last.
    holder: usize,
}

/// Words that make a head.
const HEAD: usize = 7;
/// So often a head is read anew because something was not as expected: in a process that moves the GIL may go on
/// and on to other threads.
const MOST_TRIES: usize = 100;

impl Head {
    pub fn read(
        layout: &Layout,
        memory: &dyn Memory,
        interpreter: usize,
        expected: &mut Expected,
    ) -> Result<Head, Fault> {
        let mut bytes = [0; HEAD * WORD];
        for _ in 0..MOST_TRIES {
            let spans = Head::spans(layout, interpreter, *expected);
            let read = memory.read_many(&spans, &mut bytes);
            if let Some(head) = Head::parse(layout, interpreter, expected, &bytes, read)? {
                return Ok(head);
            }
        }
        Err(Fault { address: interpreter })
    }

    /// Where its words are; in place of one that a version does not have, `threads` is read once more. The last one
    /// may be of a thread that is no more.
    fn spans(layout: &Layout, interpreter: usize, expected: Expected) -> [Span; HEAD] {
        let at = layout.interpreter;
        let of = |base: usize, offset: usize| Span { address: base.wrapping_add(offset), length: WORD };
        let own = |offset| of(interpreter, offset);
        let [pointer, holder, locked, switches] = match layout.gil {
            Gil::OfRuntime { holder, switches } => {
                let runtime = |offset| of(layout.runtime, offset);
                [own(at.threads), runtime(holder), own(at.threads), runtime(switches)]
            }
            Gil::OfInterpreter { pointer, holder, locked, switches } => {
                let gil = |offset| of(expected.gil, offset);
                [own(pointer), gil(holder), gil(locked), gil(switches)]
            }
        };
        let generation = own(at.code_generation.unwrap_or(at.threads));
        let native_id = match expected.holder {
            0 => own(at.threads),
            holder => of(holder, layout.thread.native_id),
        };
        [pointer, own(at.threads), generation, holder, locked, switches, native_id]
    }

    /// None if what was expected was not so: then it is now.
    fn parse(
        layout: &Layout,
        interpreter: usize,
        expected: &mut Expected,
        bytes: &[u8],
        read: usize,
    ) -> Result<Option<Head>, Fault> {
        let missing =
            || Fault { address: Head::spans(layout, interpreter, *expected)[read.min(HEAD - 1)].address };
        if read < 3 {
            return Err(missing());
        }
        let [pointer, threads, count, holder, locked, switches, native_id] =
            [0, 1, 2, 3, 4, 5, 6].map(|n| word(bytes, n * WORD));
        let of_interpreter = matches!(layout.gil, Gil::OfInterpreter { .. });
        if of_interpreter && pointer != expected.gil {
            expected.gil = pointer;
            return Ok(None);
        }
        if read < HEAD - 1 {
            return Err(missing());
        }
        // Not yet made: -1.
        let held = !of_interpreter || int(&locked.to_ne_bytes(), 0) > 0;
        let holder = if held { holder } else { 0 };
        if holder != 0 && holder != expected.holder {
            expected.holder = holder;
            return Ok(None);
        }
        if read < HEAD {
            if holder != 0 {
                return Err(missing());
            }
            // Who held it is no more.
            expected.holder = 0;
            return Ok(None);
        }
        let freed = layout.interpreter.code_generation.map(|_| Freed { interpreter, count });
        let native_id = if holder == 0 { 0 } else { native_id };
        Ok(Some(Head { holder, native_id, switches: switches as u64, threads, freed }))
    }
}

/// Thread states, with room that is kept from one reading to the next.
#[derive(Debug)]
pub struct States {
    size: usize,
    /// Their addresses, in the order of the interpreter's list, and where in `bytes` they are.
    found: Vec<(usize, usize)>,
    spans: Vec<Span>,
    bytes: Vec<u8>,
}

impl States {
    pub fn of(layout: &Layout) -> States {
        States { size: layout.thread.size, found: Vec::new(), spans: Vec::new(), bytes: Vec::new() }
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
        last_time: impl Iterator<Item = usize>,
    ) -> Result<Option<Head>, Fault> {
        let size = self.size;
        let links = interpreters.len() + 1;
        let before = links + HEAD;
        self.spans.clear();
        self.spans.extend(layout.links(interpreters));
        self.spans.extend(Head::spans(layout, interpreter, *expected));
        self.spans.extend(last_time.map(|address| Span { address, length: size }));
        self.bytes.resize(before * WORD + (self.spans.len() - before) * size, 0);
        let mut read = memory.read_many(&self.spans, &mut self.bytes);
        if read < links || !Layout::are_linked(interpreters, &self.bytes) {
            return Ok(None);
        }
        let head = &self.bytes[links * WORD..];
        let head = match Head::parse(layout, interpreter, expected, head, read - links)? {
            Some(head) => head,
            // The threads are to be read after it.
            None => {
                let head = Head::read(layout, memory, interpreter, expected)?;
                read = before + memory.read_many(&self.spans[before..], &mut self.bytes[before * WORD..]);
                head
            }
        };
        self.found.clear();
        let (mut next, mut steps, mut met) = (head.threads, Steps::default(), before);
        while next != 0 {
            if steps.is_circle(next) || steps.count > MAX_THREADS {
                return Err(Fault { address: next });
            }
            // Mostly the next of last time's; if not, some have ended.
            let known = &self.spans[met.min(read)..read];
            let at = match known.iter().position(|span| span.address == next) {
                Some(skipped) => {
                    met += skipped + 1;
                    before * WORD + (met - 1 - before) * size
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
            self.found.push((next, at));
            next = word(state, layout.thread.next);
        }
        Ok(Some(head))
    }

    /// Each state's address and its bytes.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &[u8])> {
        self.found.iter().map(|&(address, at)| (address, &self.bytes[at..at + self.size]))
    }

    pub fn count(&self) -> usize {
        self.found.len()
    }
}
