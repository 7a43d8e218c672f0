//! The texts of frames, each kept once.

use std::collections::hash_map::{Entry, RandomState};
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use twox_hash::XxHash3_64;

/// Texts by number, and numbers by text.
pub struct Words {
    /// All texts, one after the other, and where each of them ends.
    texts: String,
    ends: Vec<usize>,
    /// By the hash of the text, or the next free number after it: texts are compared too.
    numbers: HashMap<u64, u32, BuildHasherDefault<Unchanged>>,
    /// Chosen at random: nobody can choose frames that fall together.
    seed: u64,
    folded: String,
}

impl Words {
    pub fn new() -> Words {
        let seed = RandomState::new().build_hasher().finish();
        let (texts, ends, numbers, folded) = (String::new(), Vec::new(), HashMap::default(), String::new());
        Words { texts, ends, numbers, seed, folded }
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn get(&self, number: u32) -> &str {
        let at = number as usize;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.texts[start..self.ends[at]]
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len() as u32).map(|number| self.get(number))
    }

    /// All texts, one after the other, and where each of them ends.
    pub fn column(&self) -> (&str, &[usize]) {
        (&self.texts, &self.ends)
    }

    /// The number of a text, which is added if it is new.
    pub fn number(&mut self, text: &str) -> u32 {
        let mut hash = XxHash3_64::oneshot_with_seed(self.seed, text.as_bytes());
        loop {
            let known = match self.numbers.entry(hash) {
                Entry::Vacant(entry) => {
                    let number = self.ends.len() as u32;
                    self.texts.push_str(text);
                    self.ends.push(self.texts.len());
                    return *entry.insert(number);
                }
                Entry::Occupied(entry) => *entry.get(),
            };
            if self.get(known) == text {
                return known;
            }
            hash = hash.wrapping_add(1);
        }
    }

    /// The number of a text without its line: of `f (a.py:3)` that of `f (a.py)`.
    pub fn number_without_line(&mut self, text: &str) -> u32 {
        let Some(kept) = length_without_line(text) else { return self.number(text) };
        let mut folded = std::mem::take(&mut self.folded);
        folded.clear();
        folded.push_str(&text[..kept]);
        folded.push(')');
        let number = self.number(&folded);
        self.folded = folded;
        number
    }

    /// The place of each text among all in their order.
    pub fn ranks(&self) -> Vec<u32> {
        let mut by_text: Vec<u32> = (0..self.len() as u32).collect();
        by_text.sort_unstable_by_key(|&number| self.get(number));
        let mut ranks = vec![0; by_text.len()];
        by_text.iter().zip(0u32..).for_each(|(&number, rank)| ranks[number as usize] = rank);
        ranks
    }
}

/// How many bytes of a text come before its line; None if it has no line.
fn length_without_line(text: &str) -> Option<usize> {
    let rest = text.strip_suffix(')')?;
    let without_digits = rest.trim_end_matches(|character: char| character.is_ascii_digit());
    without_digits.strip_suffix(':').filter(|_| without_digits.len() < rest.len()).map(str::len)
}

/// The hash of a number that is a hash already.
#[derive(Default)]
struct Unchanged(u64);

impl Hasher for Unchanged {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = XxHash3_64::oneshot(bytes);
    }
}
