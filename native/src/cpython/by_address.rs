//! Maps by an address in the target.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub type ByAddress<T> = HashMap<usize, T, BuildHasherDefault<AddressHasher>>;

/// Addresses need little hashing: the process whose they are has nothing to gain from collisions.
#[derive(Debug, Default)]
pub struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_usize(byte.into()));
    }

    fn write_usize(&mut self, number: usize) {
        let mixed = (self.0 ^ number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ mixed >> 32;
    }
}
