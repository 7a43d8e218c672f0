//! The kernel's ids of threads.
//!
//! Up to Python 3.10 thread states have only the pthread_t of their thread. It is the address of a record of the C
//! library, which has the kernel's id in it: at another place in each C library.

use crate::cpython::cpython_layout::{Layout, NativeId};
use crate::linux::memory::{int, Memory, Span};
use crate::linux::threads::{has_thread, PTHREAD_TID_OFFSET};
use std::io;

/// The same in musl: `tid` of its struct pthread (src/internal/pthread_impl.h).
const MUSL_TID_OFFSET: usize = if cfg!(target_arch = "x86_64") { 48 } else { 32 };
const OFFSETS: [usize; 2] = [PTHREAD_TID_OFFSET, MUSL_TID_OFFSET];
/// So many threads are looked at to find the place.
const MAX_TRIED: usize = 64;
const ID_BYTES: usize = size_of::<i32>();

/// Reads ids of one process.
#[derive(Clone, Copy, Debug)]
pub struct NativeIds {
    /// Behind a pthread_t; None where thread states have the ids.
    offset: Option<usize>,
}

impl NativeIds {
    pub fn new(layout: &Layout) -> NativeIds {
        let behind = matches!(layout.thread.native_id, NativeId::BehindPthread { .. });
        NativeIds { offset: behind.then_some(PTHREAD_TID_OFFSET) }
    }

    pub fn are_behind_pthreads(&self) -> bool {
        self.offset.is_some()
    }

    /// Finds where the C library of a process keeps the ids. False if none of these records names a thread of it.
    ///
    /// # Errors
    /// Those of `has_thread`.
    pub fn find(&mut self, pid: i32, memory: &dyn Memory, pthreads: &[usize]) -> io::Result<bool> {
        for offset in OFFSETS {
            self.offset = Some(offset);
            for &pthread in pthreads.iter().take(MAX_TRIED) {
                let id = self.read(memory, pthread);
                if id.map_or(Ok(false), |id| has_thread(pid, id))? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The id of one thread; None if it cannot be read.
    pub fn read(&self, memory: &dyn Memory, pthread: usize) -> Option<i32> {
        self.read_many(memory, &[pthread]).pop().flatten()
    }

    /// The ids of these threads.
    pub fn read_many(&self, memory: &dyn Memory, pthreads: &[usize]) -> Vec<Option<i32>> {
        let Some(offset) = self.offset else { return vec![None; pthreads.len()] };
        let spans: Vec<Span> = pthreads
            .iter()
            .map(|pthread| Span { address: pthread.wrapping_add(offset), length: ID_BYTES })
            .collect();
        let (mut ids, mut bytes) = (Vec::with_capacity(spans.len()), vec![0; spans.len() * ID_BYTES]);
        while ids.len() < spans.len() {
            let rest = &spans[ids.len()..];
            let read = memory.read_many(rest, &mut bytes[..rest.len() * ID_BYTES]);
            ids.extend((0..read).map(|n| Some(int(&bytes, n * ID_BYTES)).filter(|&id| id > 0)));
            // The thread of the next one has ended.
            if read < rest.len() {
                ids.push(None);
            }
        }
        ids
    }
}

/// An id as a thread state has it: 0 where Python has not asked for it yet.
pub fn parse(word: usize) -> Option<i32> {
    i32::try_from(word).ok().filter(|&id| id > 0)
}
