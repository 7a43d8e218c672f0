//! How long tasks have been ready, from the queues of their loops.
//!
//! `_ready` of a loop is a deque, from whose left end the loop takes what it runs next. CPython counts in a deque's
//! `state` how often either end moved (Modules/_collectionsmodule.c). With its length that gives how much was ever
//! taken out. While less was taken than was in the queue at some time, the last of it still waits.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Readings that are remembered of a loop.
const MAX_MARKS: usize = 256;

/// The queue of a loop at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyQueue {
    pub address: usize,
    pub length: usize,
    pub moves: usize,
}

/// The queues of all loops.
#[derive(Debug, Default)]
pub struct LoopLag {
    /// Of each queue: when it was read, and what will have been taken out once all that was in it then has begun.
    marks: FxHashMap<usize, VecDeque<(u64, usize)>>,
}

impl LoopLag {
    /// The longest time for which a callback that is still in a queue has been seen there.
    pub fn update(&mut self, queues: &[ReadyQueue], now_ns: u64) -> u64 {
        self.marks.retain(|address, _| queues.iter().any(|queue| queue.address == *address));
        let mut longest_ns = 0;
        for queue in queues {
            let marks = self.marks.entry(queue.address).or_default();
            let taken = queue.moves.wrapping_sub(queue.length) / 2;
            while marks.front().is_some_and(|&(_, end)| end <= taken) {
                marks.pop_front();
            }
            if let Some(&(since_ns, _)) = marks.front() {
                longest_ns = longest_ns.max(now_ns.saturating_sub(since_ns));
            }
            if queue.length > 0 && marks.len() < MAX_MARKS {
                marks.push_back((now_ns, taken + queue.length));
            }
        }
        longest_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_in_the_queue_has_waited_since_it_was_first_seen() {
        let mut lag = LoopLag::default();
        let mut at = |now, length, moves| lag.update(&[ReadyQueue { address: 1, length, moves }], now);
        assert_eq!(at(100, 3, 3), 0);
        // Two were taken, one came: the third of the first still waits.
        assert_eq!(at(150, 2, 6), 50);
        assert_eq!(at(180, 2, 6), 80);
        // All of those are gone, two others came.
        assert_eq!(at(200, 2, 10), 0);
        assert_eq!(at(210, 0, 12), 0);
    }
}
