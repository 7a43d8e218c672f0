//! Queries on stacks besides their tree: depths, which stacks have a function, what an automaton finds in them, and the
//! cost of functions by cell.

use super::{MismatchedColumns, Pool, NONE};

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
        let mut tables = CostTables { self_cost: vec![0.0; size], total_cost: vec![0.0; size] };
        // Rows of one stack after each other, so that its words are looked up once.
        let order = self.group_by_stack(stacks)?;
        let mut here: Vec<usize> = Vec::new();
        let mut last = None;
        let mut last_stack = NONE as i32;
        let mut counted = vec![-1; words];
        for row in order {
            let row = row as usize;
            let (stack, cell) = (stacks[row], usize::try_from(at[row]).map_err(|_| MismatchedColumns)?);
            let number = stack as usize;
            if cell >= cells {
                return Err(MismatchedColumns);
            }
            if stack != last_stack {
                last_stack = stack;
                here.clear();
                for &word in self.stack(number) {
                    if let Ok(table_row) = usize::try_from(row_of_word[word as usize]) {
                        if std::mem::replace(&mut counted[table_row], stack) != stack {
                            here.push(table_row * cells);
                        }
                    }
                }
                let leaf = self.stack(number).last().map(|&word| row_of_word[word as usize]);
                last = leaf.and_then(|row| usize::try_from(row).ok()).map(|row| row * cells);
            }
            for start in &here {
                tables.total_cost[start + cell] += weights[row];
            }
            if let Some(start) = last {
                tables.self_cost[start + cell] += weights[row];
            }
        }
        Ok(tables)
    }

    /// Rows in the order of their stacks, those of one stack in their own order.
    fn group_by_stack(&self, stacks: &[i32]) -> Result<Vec<u32>, MismatchedColumns> {
        let mut next = vec![0u32; self.stacks() + 1];
        for &stack in stacks {
            let number = usize::try_from(stack).map_err(|_| MismatchedColumns)?;
            *next.get_mut(number + 1).ok_or(MismatchedColumns)? += 1;
        }
        for number in 0..self.stacks() {
            next[number + 1] += next[number];
        }
        let mut order = vec![0; stacks.len()];
        for (row, &stack) in (0u32..).zip(stacks) {
            let place = &mut next[stack as usize];
            order[*place as usize] = row;
            *place += 1;
        }
        Ok(order)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Lists, Pool, Texts};
    use super::{Automaton, Rows, CLASSES};

    fn pool() -> Pool {
        let mut pool = Pool::new("(missing stack)", false);
        let words = Texts { offsets: &[0, 1, 2], bytes: b"ab" };
        let lists = Lists { offsets: &[0, 3, 4], codes: &[0, 1, 0, 1], words };
        assert!(pool.take(lists, &[0, 1]).is_ok());
        pool
    }

    #[test]
    fn a_function_weighs_once_in_a_stack_however_often_it_is_in_it() {
        let pool = pool();
        let words: Vec<&str> = pool.words().collect();
        let row_of_word: Vec<i32> = words
            .iter()
            .map(|word| ["a", "b"].iter().position(|one| one == word).map_or(-1, |at| at as i32))
            .collect();
        let rows = Rows { stacks: &[2, 1, 1, 0], cells: &[0, 1, 0, 1], weights: &[1.0, 2.0, 4.0, 8.0] };
        let tables = pool.cost_tables(rows, &row_of_word, 2).expect("columns fit");
        assert_eq!(tables.total_cost, [4.0, 2.0, 5.0, 2.0]);
        assert_eq!(tables.self_cost, [4.0, 2.0, 1.0, 0.0]);
        assert_eq!(pool.depths(), [1, 3, 1]);
        let wanted: Vec<u8> = words.iter().map(|&word| u8::from(word == "b")).collect();
        assert_eq!(pool.holding(&wanted), Ok((vec![0, 1, 1], vec![0, 0, 1])));
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
