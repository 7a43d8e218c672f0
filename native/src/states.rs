//! The states of an interpreter's threads, and who of them holds its GIL.

use crate::code::Freed;
use crate::frames::Steps;
use crate::layout::{Gil, Layout};
use crate::memory::{int, word, Fault, Memory, Span};

/// The most threads of an interpreter that are followed.
const MAX_THREADS: usize = 32_768;
const WORD: usize = size_of::<usize>();

/// What an interpreter says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The thread state that holds the GIL, or 0.
    pub holder: usize,
    pub switches: u64,
    /// The newest thread state.
    pub threads: usize,
    pub freed: Option<Freed>,
}

/// Where an interpreter's GIL is, as of the last reading. It hardly moves.
#[derive(Clone, Copy, Debug, Default)]
pub struct KnownGil(usize);

impl Head {
    pub fn read(
        layout: &Layout,
        memory: &dyn Memory,
        interpreter: usize,
        known: &mut KnownGil,
    ) -> Result<Head, Fault> {
        let at = layout.interpreter;
        let of = |offset: usize| Span { address: interpreter.wrapping_add(offset), length: WORD };
        let [threads, generation] = [at.threads, at.code_generation.unwrap_or(at.threads)].map(of);
        let mut bytes = [0; 6 * WORD];
        let (holder, switches, rest) = match layout.gil {
            Gil::OfRuntime { holder, switches } => {
                let of_runtime =
                    |offset: usize| Span { address: layout.runtime.wrapping_add(offset), length: WORD };
                let spans = [of_runtime(holder), of_runtime(switches), threads, generation];
                memory.read_all(&spans, &mut bytes[..4 * WORD])?;
                (word(&bytes, 0), word(&bytes, WORD), 2)
            }
            Gil::OfInterpreter { pointer, holder, locked, switches } => {
                loop {
                    let of_gil = |offset: usize| Span { address: known.0.wrapping_add(offset), length: WORD };
                    let spans =
                        [of(pointer), of_gil(holder), of_gil(locked), of_gil(switches), threads, generation];
                    let read = memory.read_many(&spans, &mut bytes);
                    if read == 0 {
                        return Err(Fault { address: spans[0].address });
                    }
                    if word(&bytes, 0) == known.0 {
                        match spans.get(read) {
                            Some(span) => return Err(Fault { address: span.address }),
                            None => break,
                        }
                    }
                    known.0 = word(&bytes, 0);
                }
                // Not yet made: -1.
                let held = int(&bytes, 2 * WORD) > 0;
                (if held { word(&bytes, WORD) } else { 0 }, word(&bytes, 3 * WORD), 4)
            }
        };
        let count = word(&bytes, (rest + 1) * WORD);
        Ok(Head {
            holder,
            switches: switches as u64,
            threads: word(&bytes, rest * WORD),
            freed: at.code_generation.map(|_| Freed { interpreter, count }),
        })
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

    /// Reads the list of an interpreter, which begins at `first`. Those of last time, in their order, are read
    /// at once, as the list is mostly as it was. An error if it is no list of this interpreter's threads.
    pub fn read(
        &mut self,
        layout: &Layout,
        memory: &dyn Memory,
        interpreter: usize,
        first: usize,
        last_time: impl Iterator<Item = usize>,
    ) -> Result<(), Fault> {
        let size = self.size;
        self.spans.clear();
        self.spans.extend(last_time.map(|address| Span { address, length: size }));
        self.bytes.resize(self.spans.len() * size, 0);
        let read = memory.read_many(&self.spans, &mut self.bytes);
        self.found.clear();
        let (mut next, mut steps, mut expected) = (first, Steps::default(), 0);
        while next != 0 {
            if steps.is_circle(next) || steps.count > MAX_THREADS {
                return Err(Fault { address: next });
            }
            // Mostly the next of last time's; if not, some have ended.
            let known = &self.spans[expected.min(read)..read];
            let at = match known.iter().position(|span| span.address == next) {
                Some(skipped) => {
                    expected += skipped + 1;
                    (expected - 1) * size
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
        Ok(())
    }

    /// Each state's address and its bytes.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &[u8])> {
        self.found.iter().map(|&(address, at)| (address, &self.bytes[at..at + self.size]))
    }

    pub fn count(&self) -> usize {
        self.found.len()
    }
}
