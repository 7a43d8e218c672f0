//! Memory that all sampled processes share: a target must not take what the others need.

use std::sync::atomic::{AtomicUsize, Ordering};

/// So many bytes for all accounts together, and a share that each one has in any case.
#[derive(Debug)]
pub struct MemoryPool {
    total: usize,
    share: usize,
    used: AtomicUsize,
}

impl MemoryPool {
    pub const fn new(total: usize, share: usize) -> MemoryPool {
        MemoryPool { total, share, used: AtomicUsize::new(0) }
    }
}

/// What one process takes of a pool.
#[derive(Debug)]
pub struct MemoryAccount {
    pool: &'static MemoryPool,
    max: usize,
    used: usize,
}

impl MemoryAccount {
    /// An account for at most `max` bytes.
    pub fn new(pool: &'static MemoryPool, max: usize) -> MemoryAccount {
        MemoryAccount { pool, max, used: 0 }
    }

    /// Whether so many bytes more may be taken.
    pub fn has_room(&self, size: usize) -> bool {
        let used = self.used.saturating_add(size);
        let all = self.pool.used.load(Ordering::Relaxed).saturating_add(size);
        used <= self.pool.share || (used <= self.max && all <= self.pool.total)
    }

    pub fn add(&mut self, size: usize) {
        self.set(self.used + size);
    }

    pub fn remove(&mut self, size: usize) {
        self.set(self.used.saturating_sub(size));
    }

    /// Corrects what is taken.
    pub fn set(&mut self, used: usize) {
        self.pool.used.fetch_add(used, Ordering::Relaxed);
        self.pool.used.fetch_sub(self.used, Ordering::Relaxed);
        self.used = used;
    }

    pub fn used(&self) -> usize {
        self.used
    }
}

impl Drop for MemoryAccount {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_its_share_when_others_have_taken_the_rest() {
        static POOL: MemoryPool = MemoryPool::new(100, 10);
        let (mut greedy, mut other) = (MemoryAccount::new(&POOL, 95), MemoryAccount::new(&POOL, 50));
        assert!(greedy.has_room(95) && !greedy.has_room(96));
        greedy.add(95);
        assert!(!greedy.has_room(1));
        assert!(other.has_room(10) && !other.has_room(11));
        other.add(10);
        assert!(!other.has_room(1));
        greedy.remove(50);
        assert!(other.has_room(40) && !other.has_room(41));
        drop(greedy);
        assert_eq!(POOL.used.load(Ordering::Relaxed), 10);
    }
}
