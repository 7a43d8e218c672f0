//! Reading memory until a deadline, while threads of the target are stopped.

use crate::linux::memory::{Memory, Span};
use std::cell::Cell;
use std::time::Instant;

/// The clock is checked after so many bytes, which take some 20 µs.
const PIECE_BYTES: usize = 128 << 10;
/// And after so many spans, which take some 50 µs.
const PIECE_SPANS: usize = 128;

/// Memory that cannot be read any more once a deadline has passed. Large readings are made in pieces.
pub struct BoundedMemory<'a> {
    memory: &'a dyn Memory,
    deadline: Option<Instant>,
    clock: &'a dyn Fn() -> Instant,
    has_expired: Cell<bool>,
}

impl<'a> BoundedMemory<'a> {
    pub fn new(memory: &'a dyn Memory, deadline: Option<Instant>) -> BoundedMemory<'a> {
        BoundedMemory::with_clock(memory, deadline, &Instant::now)
    }

    pub fn with_clock(
        memory: &'a dyn Memory,
        deadline: Option<Instant>,
        clock: &'a dyn Fn() -> Instant,
    ) -> BoundedMemory<'a> {
        BoundedMemory { memory, deadline, clock, has_expired: Cell::new(false) }
    }

    /// Whether something was not read because the deadline had passed.
    pub fn has_expired(&self) -> bool {
        self.has_expired.get()
    }

    fn is_late(&self) -> bool {
        let late = self.deadline.is_some_and(|deadline| (self.clock)() >= deadline);
        self.has_expired.set(self.has_expired.get() || late);
        late
    }

    /// Reads one span in pieces.
    fn read_long(&self, span: Span, into: &mut [u8]) -> bool {
        let mut address = span.address;
        for piece in into.chunks_mut(PIECE_BYTES) {
            if self.is_late() || self.memory.read(address, piece).is_err() {
                return false;
            }
            address = address.wrapping_add(piece.len());
        }
        true
    }
}

impl Memory for BoundedMemory<'_> {
    fn read_many(&self, spans: &[Span], into: &mut [u8]) -> usize {
        let (mut read, mut rest) = (0, into);
        while let Some(&first) = spans.get(read) {
            let (mut count, mut size) = (1, first.length);
            while let Some(next) = spans.get(read + count).filter(|_| count < PIECE_SPANS) {
                if size.saturating_add(next.length) > PIECE_BYTES {
                    break;
                }
                (count, size) = (count + 1, size + next.length);
            }
            let Some((piece, after)) = std::mem::take(&mut rest).split_at_mut_checked(size) else { break };
            rest = after;
            if size > PIECE_BYTES {
                if !self.read_long(first, piece) {
                    break;
                }
            } else {
                let done = match self.is_late() {
                    true => 0,
                    false => self.memory.read_many(&spans[read..read + count], piece),
                };
                if done < count {
                    return read + done;
                }
            }
            read += count;
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::memory::MemoryImage;
    use std::time::Duration;

    fn image() -> MemoryImage {
        let bytes = (0..PIECE_BYTES * 4).map(|n| (n / 7) as u8).collect();
        MemoryImage { pieces: [(0, bytes)].into() }
    }

    /// What is read of 64 bytes, three pieces and 300 words, if the clock goes on by 1 ms at each look at it.
    fn read_within(limit: Option<u64>) -> (usize, bool, Vec<u8>) {
        let began = Instant::now();
        let looks = Cell::new(0);
        let clock = || {
            looks.set(looks.get() + 1);
            began + Duration::from_millis(looks.get())
        };
        let image = image();
        let deadline = limit.map(|ms| began + Duration::from_millis(ms));
        let memory = BoundedMemory::with_clock(&image, deadline, &clock);
        let mut spans = vec![Span { address: 8, length: 64 }, Span { address: 1, length: 3 * PIECE_BYTES }];
        spans.extend((0..300).map(|n| Span { address: 3 * n, length: 8 }));
        let mut into = vec![0; spans.iter().map(|span| span.length).sum()];
        let read = memory.read_many(&spans, &mut into);
        (read, memory.has_expired(), into)
    }

    #[test]
    fn nothing_is_read_after_the_deadline_and_everything_without_one() {
        let (read, expired, bytes) = read_within(None);
        let mut expected = vec![0; bytes.len()];
        let image = image();
        image.read(8, &mut expected[..64]).unwrap();
        image.read(1, &mut expected[64..64 + 3 * PIECE_BYTES]).unwrap();
        for n in 0..300 {
            image.read(3 * n, &mut expected[64 + 3 * PIECE_BYTES + 8 * n..][..8]).unwrap();
        }
        assert_eq!((read, expired, bytes == expected), (302, false, true));
        // One piece each for the first span and for three of the second; 128 of the words in one.
        let spans_read = [1, 2, 4, 5, 6, 7, 8].map(|limit| {
            let (read, expired, _) = read_within(Some(limit));
            (read, expired)
        });
        let (cut, all) = (true, false);
        assert_eq!(spans_read, [(0, cut), (1, cut), (1, cut), (2, cut), (130, cut), (258, cut), (302, all)]);
    }

    #[test]
    fn what_is_missing_ends_a_reading_as_without_a_deadline() {
        let image = image();
        let memory = BoundedMemory::new(&image, None);
        let missing = Span { address: usize::MAX / 2, length: 8 };
        let spans = [Span { address: 0, length: 8 }, missing, Span { address: 0, length: 8 }];
        assert_eq!(memory.read_many(&spans, &mut [0; 24]), 1);
        let long = Span { address: PIECE_BYTES, length: PIECE_BYTES * 4 };
        assert_eq!(memory.read_many(&[long], &mut vec![0; long.length]), 0);
        assert!(!memory.has_expired());
    }
}
