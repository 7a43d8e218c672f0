//! The table `stacks` of a segment, from the packed stacks of its windows.
//!
//! `sidelight_collector.storage.tables` is the reference in Python and defines the rows and their order; a test
//! compares the two.

use crate::collector::columns::{span, Lists, MismatchedColumns};
use crate::collector::packed_stacks::PackedStacks;
use crate::collector::words::Words;

const NONE: u32 = u32::MAX;

/// The packed stacks of one window and their hashes. `service` is a number.
pub struct WindowStacks<'a> {
    pub service: i32,
    pub hashes: &'a [u64],
    pub stacks: Lists<'a>,
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
pub fn build(windows: &[WindowStacks<'_>]) -> Result<SegmentStacks, MismatchedColumns> {
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
            if window.hashes.len() + 1 != window.stacks.offsets.len() {
                return Err(MismatchedColumns);
            }
            rows.extend(window.hashes.iter().enumerate().map(|(stack, &hash)| (hash, at, stack)));
            numbers.push(vec![NONE; window.stacks.words.offsets.len().saturating_sub(1)]);
        }
        rows.sort_unstable();
        for equal in rows.chunk_by(|one, other| one.0 == other.0) {
            let &(hash, at, stack) = equal.last().ok_or(MismatchedColumns)?;
            let depth = table.add_stack(windows[at].stacks, stack, &mut numbers[at], &mut words)?;
            table.services.push(windows[at].service);
            table.hashes.push(hash);
            table.depths.push(depth as i32);
        }
    }
    let (texts, ends) = words.column();
    table.stacks.texts = texts.to_string();
    table.stacks.text_offsets.push(0);
    for &end in ends {
        table.stacks.text_offsets.push(i32::try_from(end).map_err(|_| MismatchedColumns)?);
    }
    Ok(table)
}

impl SegmentStacks {
    /// Adds the frames of one of these stacks, and returns how many they are.
    fn add_stack(
        &mut self,
        stacks: Lists<'_>,
        stack: usize,
        numbers: &mut [u32],
        words: &mut Words,
    ) -> Result<usize, MismatchedColumns> {
        let frames = stacks.codes.get(span(stacks.offsets, stack)?).ok_or(MismatchedColumns)?;
        for &frame in frames {
            let frame = usize::try_from(frame).map_err(|_| MismatchedColumns)?;
            let number = numbers.get_mut(frame).ok_or(MismatchedColumns)?;
            if *number == NONE {
                *number = words.number(stacks.words.get(frame)?);
            }
            self.stacks.frames.push(*number as i32);
        }
        self.stacks.offsets.push(i32::try_from(self.stacks.frames.len()).map_err(|_| MismatchedColumns)?);
        Ok(frames.len())
    }
}

#[cfg(test)]
mod tests;
