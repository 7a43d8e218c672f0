//! The table `stacks` of a segment, from the packed stacks of its windows.
//!
//! `sidelight_collector.storage.tables` is the reference in Python and defines the rows and their order; a test
//! compares the two.

use crate::collector::packed_stacks::{PackedStacks, UnfitColumns};
use crate::collector::words::Words;

const NONE: u32 = u32::MAX;

/// The packed stacks of one window, in columns as `PackedStacks` has them, and their hashes. `service` is a number.
pub struct WindowStacks<'a> {
    pub service: i32,
    pub hashes: &'a [u64],
    pub offsets: &'a [i32],
    pub frames: &'a [i32],
    pub text_offsets: &'a [i32],
    pub texts: &'a str,
}

/// A row for each distinct stack of a service, in order of service and hash.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SegmentStacks {
    pub services: Vec<i32>,
    pub hashes: Vec<u64>,
    pub depths: Vec<i32>,
    pub stacks: PackedStacks,
}

/// Builds the table of these windows; those of a service follow each other.
///
/// Of stacks with the same hash the last counts.
pub fn build(windows: &[WindowStacks<'_>]) -> Result<SegmentStacks, UnfitColumns> {
    let mut table = SegmentStacks::default();
    table.stacks.offsets.push(0);
    let mut words = Words::new();
    // The numbers in the table of the frames of each window.
    let mut numbers: Vec<Vec<u32>> = Vec::new();
    let mut rows: Vec<(u64, usize, usize)> = Vec::new();
    for windows in windows.chunk_by(|one, other| one.service == other.service) {
        rows.clear();
        numbers.clear();
        for (at, window) in windows.iter().enumerate() {
            if window.hashes.len() + 1 != window.offsets.len() {
                return Err(UnfitColumns);
            }
            rows.extend(window.hashes.iter().enumerate().map(|(stack, &hash)| (hash, at, stack)));
            numbers.push(vec![NONE; window.text_offsets.len().saturating_sub(1)]);
        }
        rows.sort_unstable();
        for equal in rows.chunk_by(|one, other| one.0 == other.0) {
            let &(hash, at, stack) = equal.last().ok_or(UnfitColumns)?;
            let depth = table.add_stack(&windows[at], stack, &mut numbers[at], &mut words)?;
            table.services.push(windows[at].service);
            table.hashes.push(hash);
            table.depths.push(depth as i32);
        }
    }
    let (texts, ends) = words.column();
    table.stacks.texts = texts.to_string();
    table.stacks.text_offsets.push(0);
    for &end in ends {
        table.stacks.text_offsets.push(i32::try_from(end).map_err(|_| UnfitColumns)?);
    }
    Ok(table)
}

impl SegmentStacks {
    /// Adds the frames of a stack of a window, and returns how many they are.
    fn add_stack(
        &mut self,
        window: &WindowStacks<'_>,
        stack: usize,
        numbers: &mut [u32],
        words: &mut Words,
    ) -> Result<usize, UnfitColumns> {
        let frames = window.frames.get(span(window.offsets, stack)?).ok_or(UnfitColumns)?;
        for &frame in frames {
            let frame = usize::try_from(frame).map_err(|_| UnfitColumns)?;
            let number = numbers.get_mut(frame).ok_or(UnfitColumns)?;
            if *number == NONE {
                let text = window.texts.get(span(window.text_offsets, frame)?).ok_or(UnfitColumns)?;
                *number = words.number(text);
            }
            self.stacks.frames.push(*number as i32);
        }
        self.stacks.offsets.push(i32::try_from(self.stacks.frames.len()).map_err(|_| UnfitColumns)?);
        Ok(frames.len())
    }
}

fn span(offsets: &[i32], at: usize) -> Result<std::ops::Range<usize>, UnfitColumns> {
    let bound =
        |at: usize| offsets.get(at).and_then(|&bound| usize::try_from(bound).ok()).ok_or(UnfitColumns);
    Ok(bound(at)?..bound(at + 1)?)
}

#[cfg(test)]
mod tests;
