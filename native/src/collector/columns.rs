//! Columns of texts and of lists, as Arrow has them.

use std::ops::Range;

/// Columns that do not fit each other, or that have more than 2^31-1 items.
#[derive(Debug, PartialEq, Eq)]
pub struct MismatchedColumns;

/// A column of texts as Arrow has it: text i is the bytes from offset i to the next.
#[derive(Clone, Copy)]
pub struct Texts<'a> {
    pub offsets: &'a [i32],
    pub bytes: &'a [u8],
}

impl<'a> Texts<'a> {
    pub(super) fn get(&self, at: usize) -> Result<&'a str, MismatchedColumns> {
        let bytes = self.bytes.get(span(self.offsets, at)?).ok_or(MismatchedColumns)?;
        std::str::from_utf8(bytes).map_err(|_| MismatchedColumns)
    }
}

/// A column of lists of words as Arrow has it: list i is the codes from offset i to the next.
#[derive(Clone, Copy)]
pub struct Lists<'a> {
    pub offsets: &'a [i32],
    pub codes: &'a [i32],
    pub words: Texts<'a>,
}

/// Where the item with this number is.
pub(super) fn span(offsets: &[i32], at: usize) -> Result<Range<usize>, MismatchedColumns> {
    let bound =
        |at: usize| offsets.get(at).and_then(|&bound| usize::try_from(bound).ok()).ok_or(MismatchedColumns);
    Ok(bound(at)?..bound(at + 1)?)
}
