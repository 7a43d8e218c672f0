use super::*;
use crate::linux::memory::{Fault, MemoryImage};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const LAYOUT: FrameObject =
    FrameObject { previous: 24, code: 32, instruction: 96, instruction_unit: 2, size: 100 };
/// Of the thread: its newest frame.
const CURRENT: usize = 24;
const HEAP: usize = 0x10_0000;

/// Counts the reads of a piece of memory.
struct Counted {
    image: MemoryImage,
    reads: AtomicUsize,
}

impl Memory for Counted {
    fn read_many(&self, spans: &[Span], into: &mut [u8]) -> usize {
        self.reads.fetch_add(1, Relaxed);
        self.image.read_many(spans, into)
    }
}

/// A heap with frames at these addresses, newest first. Frame n runs instruction n of code n + 1.
fn heap(addresses: &[usize]) -> Counted {
    let (start, end) = (*addresses.iter().min().unwrap(), addresses.iter().max().unwrap() + LAYOUT.size);
    let mut bytes = vec![0; end - start];
    for (n, &address) in addresses.iter().enumerate() {
        let at = address - start;
        let previous = addresses.get(n + 1).copied().unwrap_or(0);
        bytes[at + LAYOUT.previous..][..8].copy_from_slice(&previous.to_ne_bytes());
        bytes[at + LAYOUT.code..][..8].copy_from_slice(&(n + 1).to_ne_bytes());
        bytes[at + LAYOUT.instruction..][..4].copy_from_slice(&(n as i32).to_ne_bytes());
    }
    Counted { image: MemoryImage { pieces: [(start, bytes)].into() }, reads: 0.into() }
}

fn walk(memory: &Counted, newest: usize, remembered: &mut Vec<Span>) -> Result<Vec<CodePosition>, WalkError> {
    let mut thread = vec![0; 64];
    thread[CURRENT..][..8].copy_from_slice(&newest.to_ne_bytes());
    let mut positions = Vec::new();
    FrameObjectWalker::new(LAYOUT, CURRENT).walk(memory, &thread, None, remembered, &mut positions)?;
    Ok(positions)
}

fn reads(memory: &Counted) -> usize {
    memory.reads.swap(0, Relaxed)
}

/// Addresses without any pattern.
fn scattered(count: usize) -> Vec<usize> {
    let mut addresses: Vec<usize> = (0..count).map(|n| HEAP + n * 4096).collect();
    fastrand::Rng::with_seed(7).shuffle(&mut addresses);
    addresses
}

fn is_whole(positions: &[CodePosition], depth: usize) -> bool {
    let position = |n: usize| CodePosition { code: n + 1, instruction: n + 1 + 2 * n };
    positions.len() == depth && positions.iter().enumerate().all(|(n, found)| *found == position(n))
}

#[test]
fn a_stack_that_was_walked_before_is_read_at_once() {
    let addresses = scattered(300);
    let (memory, mut remembered) = (heap(&addresses), Vec::new());
    assert!(is_whole(&walk(&memory, addresses[0], &mut remembered).unwrap(), 300));
    assert_eq!(reads(&memory), 300);
    assert!(is_whole(&walk(&memory, addresses[0], &mut remembered).unwrap(), 300));
    assert_eq!(reads(&memory), 1);
    // Ten frames have ended.
    assert_eq!(walk(&memory, addresses[10], &mut remembered).unwrap().len(), 290);
    assert_eq!(reads(&memory), 1);
    // Ten others have begun.
    assert!(is_whole(&walk(&memory, addresses[0], &mut remembered).unwrap(), 300));
    assert_eq!(reads(&memory), 11);
}

#[test]
fn a_deep_recursion_is_read_in_windows_in_whichever_order_it_lies() {
    const DEPTH: usize = 60_000;
    let ascending: Vec<usize> = (0..DEPTH).map(|n| HEAP + n * 448).collect();
    let descending: Vec<usize> = ascending.iter().rev().copied().collect();
    // Two functions that call each other.
    let mutual: Vec<usize> =
        (0..DEPTH / 2).rev().flat_map(|n| [HEAP + n * 448, HEAP + (DEPTH + n) * 512]).collect();
    for addresses in [ascending, descending, mutual] {
        let (memory, mut remembered) = (heap(&addresses), Vec::new());
        for _ in 0..2 {
            assert!(is_whole(&walk(&memory, addresses[0], &mut remembered).unwrap(), DEPTH));
            assert!(reads(&memory) < DEPTH / 40);
        }
    }
}

#[test]
fn frames_whose_memory_is_gone_are_not_taken_for_others() {
    let addresses = scattered(100);
    let (mut memory, mut remembered) = (heap(&addresses), Vec::new());
    walk(&memory, addresses[0], &mut remembered).unwrap();
    // The heap ends before a frame in the middle now: what was remembered beyond it cannot be read.
    let cut = addresses[50];
    memory.image.pieces.values_mut().for_each(|bytes| bytes.truncate(cut - HEAP));
    let first = addresses.iter().position(|&address| address >= cut).unwrap();
    let fault = Err(WalkError::Fault(Fault { address: addresses[first] }));
    assert_eq!(walk(&memory, addresses[0], &mut remembered), fault);
    assert_eq!(walk(&memory, addresses[0], &mut Vec::new()), fault);
}

#[test]
fn a_list_of_frames_that_never_ends_is_an_error() {
    let mut addresses = scattered(50);
    addresses.push(addresses[20]);
    let memory = heap(&addresses[..50]);
    let start = *addresses.iter().min().unwrap();
    let mut image = memory.image.clone();
    let back = addresses[49] - start + LAYOUT.previous;
    image.pieces.get_mut(&start).unwrap()[back..][..8].copy_from_slice(&addresses[20].to_ne_bytes());
    let memory = Counted { image, reads: 0.into() };
    assert_eq!(walk(&memory, addresses[0], &mut Vec::new()), Err(WalkError::Cycle));
}

#[test]
fn a_walk_without_time_remembers_how_far_it_came() {
    let addresses = scattered(1000);
    let memory = heap(&addresses);
    let mut thread = vec![0; 64];
    thread[CURRENT..][..8].copy_from_slice(&addresses[0].to_ne_bytes());
    let (mut remembered, mut positions) = (Vec::new(), Vec::new());
    let mut walker = FrameObjectWalker::new(LAYOUT, CURRENT);
    let mut walk = |deadline, remembered: &mut Vec<Span>| {
        positions.clear();
        walker.walk(&memory, &thread, deadline, remembered, &mut positions)
    };
    walk(None, &mut remembered).unwrap();
    let all = remembered.clone();
    assert_eq!(walk(Some(Instant::now()), &mut remembered), Err(WalkError::Timeout));
    assert_eq!(remembered.last(), all.last());
    assert!(all.iter().all(|span| remembered.contains(span)));
}
