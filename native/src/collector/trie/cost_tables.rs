//! Queries on stacks besides their tree: depths, which stacks have a function, what an automaton finds in them, and the
//! cost of functions by cell.

use super::{Paths, Pool};
use crate::collector::columns::MismatchedColumns;

/// For each row the number of a stack, the cell that it is of, and what it weighs there.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    pub stacks: &'a [i32],
    pub cells: &'a [i32],
    pub weights: &'a [f64],
}

/// The classes of words that an automaton tells apart.
const CLASSES: usize = 16;

/// A finite automaton that reads the classes of words. For each state, and each of `CLASSES` in it, the next state and
/// what becomes of the marked word: 0 it stays, 1 it is this one, 2 there is none.
#[derive(Clone, Copy)]
pub struct Automaton<'a> {
    pub next: &'a [u8],
    pub marks: &'a [u8],
    pub start: u8,
}

/// Costs of words by cell, one word after the other.
pub struct CostTables {
    pub self_cost: Vec<f64>,
    pub total_cost: Vec<f64>,
}

impl Pool {
    /// Every frame that stacks may have, each once.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.words.iter()
    }

    /// The frames of each stack.
    pub fn depths(&self) -> Vec<i32> {
        (0..self.stacks()).map(|number| self.stack(number).len() as i32).collect()
    }

    /// For each stack whether it has any of the words that are wanted, and whether it ends with one.
    pub fn holding(&self, wanted: &[u8]) -> Result<(Vec<u8>, Vec<u8>), MismatchedColumns> {
        if wanted.len() != self.words.len() {
            return Err(MismatchedColumns);
        }
        let is = |word: &u32| wanted[*word as usize] != 0;
        let any = |number| u8::from(self.stack(number).iter().any(is));
        let last = |number| u8::from(self.stack(number).last().is_some_and(is));
        Ok(((0..self.stacks()).map(any).collect(), (0..self.stacks()).map(last).collect()))
    }

    /// The state in which an automaton leaves each stack, root first, and the word that it marked last, or -1.
    /// `classes` are those of words.
    pub fn walk(
        &self,
        classes: &[u8],
        automaton: Automaton<'_>,
    ) -> Result<(Vec<u8>, Vec<i32>), MismatchedColumns> {
        let Automaton { next, marks, start } = automaton;
        if classes.len() != self.words.len() || next.len() != marks.len() {
            return Err(MismatchedColumns);
        }
        let walk = |number| {
            let (mut state, mut marked) = (start, -1);
            for &word in self.stack(number) {
                let step = usize::from(state) * CLASSES + usize::from(classes[word as usize]);
                state = *next.get(step).ok_or(MismatchedColumns)?;
                marked = match marks[step] {
                    0 => marked,
                    1 => word as i32,
                    _ => -1,
                };
            }
            Ok((state, marked))
        };
        (0..self.stacks()).map(walk).collect()
    }

    /// Self and total cost of words in each cell; a total counts each stack once. `row_of_word` is the row of each
    /// word in the tables, from 0 without a gap; -1 for words without a row.
    pub fn cost_tables(
        &self,
        rows: Rows<'_>,
        row_of_word: &[i32],
        cells: usize,
    ) -> Result<CostTables, MismatchedColumns> {
        let Rows { stacks, cells: at, weights } = rows;
        if row_of_word.len() != self.words.len() || stacks.len() != at.len() || stacks.len() != weights.len()
        {
            return Err(MismatchedColumns);
        }
        let words = row_of_word.iter().max().map_or(0, |&last| usize::try_from(last + 1).unwrap_or(0));
        let size = words.checked_mul(cells).ok_or(MismatchedColumns)?;
        if !at.iter().all(|&cell| usize::try_from(cell).is_ok_and(|cell| cell < cells)) {
            return Err(MismatchedColumns);
        }
        let mut tables = CostTables { self_cost: vec![0.0; size], total_cost: vec![0.0; size] };
        let stacks =
            stacks.iter().map(|&stack| usize::try_from(stack).ok().filter(|&stack| stack < self.stacks()));
        let stacks: Vec<usize> = stacks.collect::<Option<_>>().ok_or(MismatchedColumns)?;
        if self.has_paths() {
            self.add_by_path(rows, &stacks, row_of_word, cells, &mut tables);
        } else {
            self.add_by_row(rows, &stacks, row_of_word, cells, &mut tables);
        }
        Ok(tables)
    }

    /// Adds what each row weighs to the words of its stack.
    fn add_by_row(
        &self,
        rows: Rows<'_>,
        stacks: &[usize],
        row_of_word: &[i32],
        cells: usize,
        tables: &mut CostTables,
    ) {
        let groups = RowGroups::build(self.stacks(), stacks.iter().copied());
        let mut here: Vec<usize> = Vec::new();
        let mut counted = vec![usize::MAX; tables.total_cost.len() / cells.max(1)];
        for number in 0..self.stacks() {
            let own = groups.of(number);
            if own.is_empty() {
                continue;
            }
            here.clear();
            for &word in self.stack(number) {
                if let Ok(table_row) = usize::try_from(row_of_word[word as usize]) {
                    if std::mem::replace(&mut counted[table_row], number) != number {
                        here.push(table_row * cells);
                    }
                }
            }
            let last = self.stack(number).last().map(|&word| row_of_word[word as usize]);
            let last = last.and_then(|row| usize::try_from(row).ok()).map(|row| row * cells);
            for &row in own {
                let (cell, weight) = (rows.cells[row as usize] as usize, rows.weights[row as usize]);
                here.iter().for_each(|start| tables.total_cost[start + cell] += weight);
                if let Some(start) = last {
                    tables.self_cost[start + cell] += weight;
                }
            }
        }
    }

    /// Adds up the rows of each call path, and then each path to its words. There are fewer paths than rows of stacks, and
    /// cells lie next to each other.
    fn add_by_path(
        &self,
        rows: Rows<'_>,
        stacks: &[usize],
        row_of_word: &[i32],
        cells: usize,
        tables: &mut CostTables,
    ) {
        let Paths { level, word, node } = &self.paths;
        let groups = RowGroups::build(level.len(), stacks.iter().map(|&stack| node[stack] as usize));
        // The table row of each node of the path, unless it has none or is in the path before.
        let mut path: Vec<Option<usize>> = Vec::new();
        let mut is_counted = vec![false; tables.total_cost.len() / cells.max(1)];
        // The cells of each node of the path, of what ends at it or below it so far.
        let mut sums: Vec<f64> = Vec::new();
        // The root has no word, and closes the path at the end.
        for (at, &level) in level.iter().enumerate().skip(1).chain([(0, &1)]) {
            while path.len() >= level as usize {
                let (above, here) = sums.split_at_mut((path.len() - 1) * cells);
                if let Some(Some(row)) = path.pop() {
                    is_counted[row] = false;
                    add(&mut tables.total_cost[row * cells..][..cells], here);
                }
                if let Some(start) = above.len().checked_sub(cells) {
                    add(&mut above[start..], here);
                }
                sums.truncate(path.len() * cells);
            }
            if at == 0 {
                break;
            }
            let table_row = usize::try_from(row_of_word[word[at] as usize]).ok();
            path.push(table_row.filter(|&row| !std::mem::replace(&mut is_counted[row], true)));
            let start = sums.len();
            sums.resize(start + cells, 0.0);
            for &row in groups.of(at) {
                let (cell, weight) = (rows.cells[row as usize] as usize, rows.weights[row as usize]);
                sums[start + cell] += weight;
                if let Some(table_row) = table_row {
                    tables.self_cost[table_row * cells + cell] += weight;
                }
            }
        }
    }
}

/// The numbers of rows by group, and where those of each group end.
struct RowGroups {
    rows: Vec<u32>,
    ends: Vec<u32>,
}

impl RowGroups {
    fn build(count: usize, groups: impl Iterator<Item = usize> + Clone) -> RowGroups {
        let mut ends = vec![0u32; count + 1];
        groups.clone().for_each(|group| ends[group + 1] += 1);
        for group in 0..count {
            ends[group + 1] += ends[group];
        }
        let mut rows = vec![0; ends[count] as usize];
        // Each is where the rows of a group begin, and moves to where they end.
        for (row, group) in (0u32..).zip(groups) {
            rows[ends[group] as usize] = row;
            ends[group] += 1;
        }
        RowGroups { rows, ends }
    }

    /// The rows of a group, in their order.
    fn of(&self, group: usize) -> &[u32] {
        let start = if group == 0 { 0 } else { self.ends[group - 1] };
        &self.rows[start as usize..self.ends[group] as usize]
    }
}

fn add(to: &mut [f64], from: &[f64]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

#[cfg(test)]
mod tests {
    use super::super::Pool;
    use super::{Automaton, Rows, CLASSES};
    use crate::collector::columns::{Lists, Texts};

    fn pool() -> Pool {
        let mut pool = Pool::new("(missing stack)", false);
        let words = Texts { offsets: &[0, 1, 2], bytes: b"ab" };
        let lists = Lists { offsets: &[0, 3, 4], codes: &[0, 1, 0, 1], words };
        assert!(pool.take(lists, &[0, 1]).is_ok());
        pool
    }

    #[test]
    fn a_function_weighs_once_in_a_stack_however_often_it_is_in_it() {
        let mut pool = pool();
        let words: Vec<String> = pool.words().map(str::to_string).collect();
        let row_of_word: Vec<i32> = words
            .iter()
            .map(|word| ["a", "b"].iter().position(|one| one == word).map_or(-1, |at| at as i32))
            .collect();
        let rows = Rows { stacks: &[2, 1, 1, 0], cells: &[0, 1, 0, 1], weights: &[1.0, 2.0, 4.0, 8.0] };
        for has_paths in [false, true] {
            assert_eq!(pool.has_paths(), has_paths);
            let tables = pool.cost_tables(rows, &row_of_word, 2).expect("columns fit");
            assert_eq!(tables.total_cost, [4.0, 2.0, 5.0, 2.0]);
            assert_eq!(tables.self_cost, [4.0, 2.0, 1.0, 0.0]);
            assert!(pool.draw(&[], 9).is_ok());
        }
        assert_eq!(pool.depths(), [1, 3, 1]);
        let wanted: Vec<u8> = words.iter().map(|word| u8::from(word == "b")).collect();
        assert_eq!(pool.holding(&wanted), Ok((vec![0, 1, 1], vec![0, 0, 1])));
    }

    #[test]
    fn costs_by_call_path_are_those_of_all_rows() {
        let mut pool = Pool::new("(missing stack)", false);
        let stacks: Vec<Vec<i32>> = (0..300)
            .map(|at| (0..at % 7).map(|place| (at * 31 + place * place * at / 5) % 4).collect())
            .collect();
        let ends: Vec<i32> = stacks
            .iter()
            .scan(0, |end, stack| {
                *end += stack.len() as i32;
                Some(*end)
            })
            .collect();
        let words = Texts { offsets: &[0, 1, 2, 3, 4], bytes: b"abcd" };
        let (offsets, numbers) = ([vec![0], ends].concat(), (0..300).collect::<Vec<i32>>());
        assert!(pool.take(Lists { offsets: &offsets, codes: &stacks.concat(), words }, &numbers).is_ok());
        // Every second word has a row in the tables.
        let row_of_word: Vec<i32> =
            pool.words().zip(0..).map(|(_, at)| if at % 2 == 0 { at / 2 } else { -1 }).collect();
        let (stacks, cells): (Vec<i32>, Vec<i32>) = (0..2000).map(|row| (row * 7 % 301, row % 5)).unzip();
        let weights: Vec<f64> = (0..2000).map(f64::from).collect();
        let rows = Rows { stacks: &stacks, cells: &cells, weights: &weights };
        let by_row = pool.cost_tables(rows, &row_of_word, 5).expect("columns fit");
        assert!(pool.draw(&[], 9).is_ok());
        let by_path = pool.cost_tables(rows, &row_of_word, 5).expect("columns fit");
        assert!(pool.has_paths() && by_row.total_cost.iter().any(|&cost| cost > 0.0));
        assert_eq!((by_path.self_cost, by_path.total_cost), (by_row.self_cost, by_row.total_cost));
    }

    #[test]
    fn an_automaton_marks_the_last_word_of_a_class_and_forgets_it_at_another() {
        let pool = pool();
        let classes: Vec<u8> = pool.words().map(|word| u8::from(word == "b")).collect();
        let (mut next, mut marks) = ([0; 2 * CLASSES], [0; 2 * CLASSES]);
        (next[1], next[CLASSES + 1]) = (1, 1);
        (marks[1], marks[CLASSES]) = (1, 2);
        let b = pool.words().position(|word| word == "b").expect("it is there") as i32;
        let walk = |next, start| pool.walk(&classes, Automaton { next, marks: &marks, start });
        assert_eq!(walk(&next, 0), Ok((vec![0, 0, 1], vec![-1, -1, b])));
        assert!(walk(&next, 2).is_err());
        assert!(walk(&next[1..], 0).is_err());
    }

    #[test]
    fn columns_that_do_not_fit_are_refused() {
        let pool = pool();
        let none = vec![-1; pool.words().count()];
        let rows = |stacks, cells| Rows { stacks, cells, weights: &[1.0] };
        assert!(pool.cost_tables(rows(&[0], &[0]), &none, 1).is_ok());
        assert!(pool.cost_tables(rows(&[3], &[0]), &none, 1).is_err());
        assert!(pool.cost_tables(rows(&[-1], &[0]), &none, 1).is_err());
        assert!(pool.cost_tables(rows(&[0], &[1]), &none, 1).is_err());
        assert!(pool.cost_tables(rows(&[0], &[0, 0]), &none, 1).is_err());
        assert!(pool.cost_tables(rows(&[0], &[0]), &none[1..], 1).is_err());
        assert!(pool.holding(&[0]).is_err());
    }
}
