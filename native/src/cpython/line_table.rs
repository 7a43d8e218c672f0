//! The line table of a code object: its location table (CPython 3.11 and later, InternalDocs/code_objects.md).
//!
//! A table is a sequence of entries, each for some code units: a byte with the kind and the number of units, then
//! the arguments of that kind. Lines are stored as differences. Columns and end lines are skipped.

/// The line of each code unit, in rows of neighbours on one line.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LineTable {
    /// (code units up to here, line)
    rows: Vec<(u32, i32)>,
}

impl LineTable {
    pub fn parse(table: &[u8], first: i32) -> LineTable {
        let mut rows: Vec<(u32, i32)> = Vec::new();
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
            match rows.last_mut() {
                Some(last) if last.1 == line => last.0 = end,
                _ => rows.push((end, line)),
            }
        }
        if rows.is_empty() {
            rows.push((0, first));
        }
        rows.shrink_to_fit();
        LineTable { rows }
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

    fn lines(table: &[u8], first: i32, units: std::ops::Range<u32>) -> Vec<i32> {
        let lines = LineTable::parse(table, first);
        units.map(|unit| lines.line(lines.row(unit))).collect()
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
            let lines = LineTable::parse(&table, random.i32(..));
            for unit in [0, 1, 100, u32::MAX] {
                lines.line(lines.row(unit));
            }
            assert!(lines.count() <= table.len().max(1));
        }
    }
}
