//! The line table of a code object.
//!
//! Since CPython 3.11 it is a location table (InternalDocs/code_objects.md): a sequence of entries, each for some code
//! units: a byte with the kind and the number of units, then the arguments of that kind. Lines are stored as
//! differences. Columns and end lines are skipped.
//!
//! Earlier tables are pairs of bytes (Objects/lnotab_notes.txt). In 3.10 a pair is a number of bytes of code and the
//! difference of their line, or -128 for no line. Up to 3.9 it is what to add to the address and to the line at the
//! next place where a line begins.

use crate::cpython::cpython_layout::{LineFormat, INSTRUCTION_BYTES};

/// The line of each code unit, in rows of neighbours on one line.
///
/// Units count from 1: 0 is a frame that has not begun. Its line is that of the `def`, as in tracebacks.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LineTable {
    /// (the first unit behind it, line)
    rows: Vec<(u32, i32)>,
}

impl LineTable {
    pub fn parse(format: LineFormat, table: &[u8], first: i32) -> LineTable {
        let mut lines = LineTable::default();
        match format {
            LineFormat::Increments => lines.add_increments(table, first),
            LineFormat::Ranges => lines.add_ranges(table, first),
            LineFormat::Locations => lines.add_locations(table, first),
        }
        if lines.rows.is_empty() {
            lines.rows.push((1, first));
        }
        lines.rows.shrink_to_fit();
        lines
    }

    /// Adds a line, given the number of code units up to its end.
    fn add(&mut self, units: u32, line: i32) {
        let end = units.saturating_add(1);
        match self.rows.last_mut() {
            Some(last) if last.1 == line => last.0 = end,
            _ => self.rows.push((end, line)),
        }
    }

    fn add_increments(&mut self, table: &[u8], first: i32) {
        let (mut address, mut line) = (0u32, first);
        self.add(0, first);
        for pair in table.chunks_exact(2) {
            if pair[0] > 0 {
                address = address.saturating_add(pair[0].into());
                self.add(units(address), line);
            }
            line = line.wrapping_add(i32::from(pair[1] as i8));
        }
        // The rest of the code is on the last line.
        self.add(u32::MAX, line);
    }

    fn add_ranges(&mut self, table: &[u8], first: i32) {
        const NO_LINE: i8 = -128;
        let (mut end, mut line) = (0u32, first);
        self.add(0, first);
        for pair in table.chunks_exact(2) {
            let difference = pair[1] as i8;
            if difference != NO_LINE {
                line = line.wrapping_add(difference.into());
            }
            if pair[0] > 0 {
                end = end.saturating_add(pair[0].into());
                // Without a line: as the one before.
                self.add(units(end), line);
            }
        }
    }

    fn add_locations(&mut self, table: &[u8], first: i32) {
        let (mut end, mut line) = (0u32, first);
        let mut rest = table;
        while let Some((&head, after)) = rest.split_first() {
            rest = after;
            end = end.saturating_add(u32::from(head & 7) + 1);
            let (difference, passed) = match (head >> 3) & 15 {
                // No line: as the one before, which is what tracebacks of it would be nearest to.
                15 => (0, 0),
                // Line, then end line and two columns as numbers of their own.
                14 => {
                    let difference = signed(&mut rest);
                    (0..3).for_each(|_| _ = unsigned(&mut rest));
                    (difference, 0)
                }
                13 => (signed(&mut rest), 0),
                kind @ 10..=12 => (i32::from(kind) - 10, 2),
                _ => (0, 1),
            };
            rest = rest.get(passed..).unwrap_or(&[]);
            line = line.wrapping_add(difference);
            self.add(end, line);
        }
    }

    /// The number of the row with a code unit; those beyond the end are in the last.
    pub fn row(&self, unit: u32) -> usize {
        self.rows.partition_point(|&(end, _)| end <= unit).min(self.rows.len() - 1)
    }

    pub fn line(&self, row: usize) -> i32 {
        self.rows[row].1
    }

    /// The memory that it takes.
    pub fn size(&self) -> usize {
        self.rows.capacity() * size_of::<(u32, i32)>()
    }

    pub fn count(&self) -> usize {
        self.rows.len()
    }
}

/// The number of code units up to an address.
fn units(address: u32) -> u32 {
    address.div_ceil(INSTRUCTION_BYTES as u32)
}

/// A number, six bits a byte, lowest first; bit 6 says that there are more.
fn unsigned(rest: &mut &[u8]) -> u32 {
    let (mut number, mut shift) = (0u32, 0);
    while let Some((&byte, after)) = rest.split_first() {
        *rest = after;
        number |= u32::from(byte & 63).checked_shl(shift).unwrap_or(0);
        shift += 6;
        if byte & 64 == 0 {
            break;
        }
    }
    number
}

/// The same with the sign in the lowest bit.
fn signed(rest: &mut &[u8]) -> i32 {
    let number = unsigned(rest);
    let value = (number >> 1) as i32;
    if number & 1 == 1 {
        -value
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMATS: [LineFormat; 3] = [LineFormat::Increments, LineFormat::Ranges, LineFormat::Locations];

    fn lines_of(format: LineFormat, table: &[u8], first: i32, units: std::ops::Range<u32>) -> Vec<i32> {
        let lines = LineTable::parse(format, table, first);
        units.map(|unit| lines.line(lines.row(unit + 1))).collect()
    }

    fn lines(table: &[u8], first: i32, units: std::ops::Range<u32>) -> Vec<i32> {
        lines_of(LineFormat::Locations, table, first, units)
    }

    #[test]
    fn increments_lead_from_one_line_to_the_next() {
        // def f(a):
        //     b = (a +
        //          g(a) + "x" * 300)   (0, 4: forth and back in one expression)
        //     return b
        // as Python 3.8 has it: bytes of code, then lines.
        let table = [0, 1, 2, 1, 12, 0xFF, 4, 2];
        assert_eq!(
            lines_of(LineFormat::Increments, &table, 1, 0..11),
            [2, 3, 3, 3, 3, 3, 3, 2, 2, 4, 4].map(|line: i32| line)
        );
        // More than a byte holds: 600 bytes of code and 300 lines.
        let table = [255, 0, 255, 0, 90, 127, 0, 127, 0, 46];
        assert_eq!(lines_of(LineFormat::Increments, &table, 1, 299..302), [1, 301, 301]);
        assert_eq!(lines_of(LineFormat::Increments, &[], 7, 0..2), [7; 2]);
    }

    #[test]
    fn a_frame_that_has_not_begun_is_on_the_line_of_its_definition() {
        for (format, table) in FORMATS.into_iter().zip([&[0, 2][..], &[4, 2], &[0x80 | 10 << 3, 0, 0]]) {
            let lines = LineTable::parse(format, table, 7);
            assert_eq!(lines.line(lines.row(0)), 7, "{format:?}");
        }
    }

    #[test]
    fn ranges_have_the_lines_of_their_code_and_may_have_none() {
        // Python 3.10: two bytes on line 2, none, four on line 3 after an empty range, then back to 2.
        let table = [2, 1, 2, 0x80, 0, 5, 4, 0xFC, 2, 0xFF];
        assert_eq!(lines_of(LineFormat::Ranges, &table, 1, 0..6), [2, 2, 3, 3, 2, 2]);
        assert_eq!(lines_of(LineFormat::Ranges, &[], 7, 0..2), [7; 2]);
    }

    #[test]
    fn a_table_gives_the_line_of_every_code_unit() {
        // def fib(n):
        //     if n < 2: return n
        //     return fib(n - 1) + fib(n - 2)
        // as compiled by 3.11, without its columns: RESUME on line 1, a test on 2, the rest on 3.
        let table = [128, 0, 216, 4, 5, 136, 1, 130, 1, 216, 4, 5, 0xE8, 0x81, 1];
        assert_eq!(lines(&table, 1, 0..9), [1, 2, 2, 2, 2, 2, 3, 3, 3].map(|line: i32| line));
    }

    #[test]
    fn lines_go_back_and_forth_over_any_distance() {
        // Long form: +70 lines (140 = 12 | 64, 2), an end line and two columns; then -70 without columns.
        let table = [0x80 | 14 << 3, 12 | 64, 2, 1 | 64, 3, 2, 3, 0x80 | 13 << 3 | 1, 13 | 64, 2];
        assert_eq!(lines(&table, 100, 0..3), [170, 100, 100]);
    }

    #[test]
    fn units_without_a_line_have_the_one_before_and_those_beyond_the_end_the_last() {
        let table = [0x80 | 11 << 3, 0, 0, 0x80 | 15 << 3 | 3];
        assert_eq!(lines(&table, 7, 0..20), [8; 20]);
        assert_eq!(lines(&[], 7, 0..2), [7; 2]);
    }

    #[test]
    fn any_bytes_are_a_table() {
        let mut random = fastrand::Rng::with_seed(11);
        for _ in 0..20_000 {
            let table: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..)).collect();
            for format in FORMATS {
                let lines = LineTable::parse(format, &table, random.i32(..));
                for unit in [0, 1, 100, u32::MAX] {
                    lines.line(lines.row(unit));
                }
                assert!(lines.count() <= table.len() + 1);
            }
        }
    }
}
