//! Reading the memory of another process.

use crate::linux::target::living_thread;
use std::fmt;
use std::sync::atomic::{AtomicI32, Ordering};

/// Where bytes lie in the target. As the kernel's `iovec`, so that lists of them are handed over as they are.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub address: usize,
    pub length: usize,
}

/// An address cannot be read, or the process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub address: usize,
}

/// Bytes by their address in the target. Any address may be asked for.
pub trait Memory {
    /// Fills `into` with the bytes at `spans`, one span after the other: their lengths add up to its size.
    /// Gives how many spans were read; if these are not all, the next one could not be.
    fn read_many(&self, spans: &[Span], into: &mut [u8]) -> usize;

    fn read(&self, address: usize, into: &mut [u8]) -> Result<(), Fault> {
        match self.read_many(&[Span { address, length: into.len() }], into) {
            0 => Err(Fault { address }),
            _ => Ok(()),
        }
    }

    /// What lies at the spans, or the first of them that could not be read.
    fn read_all(&self, spans: &[Span], into: &mut [u8]) -> Result<(), Fault> {
        match spans.get(self.read_many(spans, into)) {
            Some(span) => Err(Fault { address: span.address }),
            None => Ok(()),
        }
    }

    fn word(&self, address: usize) -> Result<usize, Fault> {
        let mut bytes = [0; size_of::<usize>()];
        self.read(address, &mut bytes)?;
        Ok(usize::from_ne_bytes(bytes))
    }
}

/// The word at an offset of bytes that were read. The offset must lie within.
pub fn word(bytes: &[u8], offset: usize) -> usize {
    let mut word = [0; size_of::<usize>()];
    word.copy_from_slice(&bytes[offset..][..size_of::<usize>()]);
    usize::from_ne_bytes(word)
}

/// The C int at an offset of bytes that were read. The offset must lie within.
pub fn int(bytes: &[u8], offset: usize) -> i32 {
    let mut int = [0; size_of::<i32>()];
    int.copy_from_slice(&bytes[offset..][..size_of::<i32>()]);
    i32::from_ne_bytes(int)
}

/// The bytes of a list of spans, of which the first `left` were read.
#[derive(Clone, Copy)]
pub struct ReadSpans<'a> {
    bytes: &'a [u8],
    left: usize,
}

impl ReadSpans<'_> {
    pub fn new(bytes: &[u8], left: usize) -> ReadSpans<'_> {
        ReadSpans { bytes, left }
    }

    /// Whether the next span was read and has these bytes.
    pub fn matches(&mut self, was: &[u8]) -> bool {
        let read = self.left > 0;
        let (now, rest) = self.bytes.split_at(was.len());
        self.bytes = rest;
        self.left = self.left.saturating_sub(1);
        read && now == was
    }

    pub fn skip(&mut self, length: usize) {
        self.bytes = &self.bytes[length..];
        self.left = self.left.saturating_sub(1);
    }
}

/// A process, read with process_vm_readv(2), by the id of a thread that has not ended: a main thread that ended before
/// the others has no memory.
#[derive(Debug)]
pub struct RemoteMemory {
    pid: i32,
    tid: AtomicI32,
}

impl RemoteMemory {
    pub fn new(pid: i32) -> RemoteMemory {
        RemoteMemory { pid, tid: AtomicI32::new(pid) }
    }

    /// The number of bytes read; negative if none can be.
    fn copy(&self, local: &libc::iovec, spans: &[Span]) -> isize {
        let copy = |tid| {
            // SAFETY: `local` is room that the caller borrows mutably; a Span is laid out as an iovec, and the kernel
            // checks the addresses in the other process.
            unsafe { libc::process_vm_readv(tid, local, 1, spans.as_ptr().cast(), spans.len() as _, 0) }
        };
        let tid = self.tid.load(Ordering::Relaxed);
        let read = copy(tid);
        if read >= 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH) {
            return read;
        }
        match living_thread(self.pid).filter(|&living| living != tid) {
            Some(living) => {
                self.tid.store(living, Ordering::Relaxed);
                copy(living)
            }
            None => read,
        }
    }
}

impl Memory for RemoteMemory {
    fn read_many(&self, spans: &[Span], into: &mut [u8]) -> usize {
        let (mut read, mut filled) = (0, 0);
        for some in spans.chunks(libc::UIO_MAXIOV as usize) {
            let length: usize = some.iter().fold(0, |sum, span| sum.saturating_add(span.length));
            let Some(room) = into.get_mut(filled..).filter(|room| room.len() >= length) else { break };
            let local = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: length };
            let mut left = self.copy(&local, some).max(0) as usize;
            for span in some {
                if span.length > left {
                    return read;
                }
                left -= span.length;
                read += 1;
            }
            filled += length;
        }
        read
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read the process's memory at {:#x}", self.address)
    }
}

/// Memory made up of pieces.
#[cfg(test)]
#[derive(Clone, Debug, Default)]
pub struct MemoryImage {
    pub pieces: std::collections::BTreeMap<usize, Vec<u8>>,
}

#[cfg(test)]
impl Memory for MemoryImage {
    fn read_many(&self, spans: &[Span], into: &mut [u8]) -> usize {
        let mut filled = 0;
        for (read, span) in spans.iter().enumerate() {
            let piece = self.pieces.range(..=span.address).next_back();
            let found = piece.and_then(|(start, bytes)| {
                let from = span.address - start;
                bytes.get(from..from.checked_add(span.length)?)
            });
            let Some(found) = found else { return read };
            into[filled..filled + span.length].copy_from_slice(found);
            filled += span.length;
        }
        spans.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> RemoteMemory {
        RemoteMemory::new(std::process::id() as i32)
    }

    fn span<T>(of: &[T]) -> Span {
        Span { address: of.as_ptr() as usize, length: size_of_val(of) }
    }

    #[test]
    fn spans_are_read_one_after_the_other() {
        let (first, second) = ([1u8, 2, 3], [4u8, 5]);
        let mut into = [0; 5];
        assert_eq!(here().read_many(&[span(&first), span(&second)], &mut into), 2);
        assert_eq!(into, [1, 2, 3, 4, 5]);
    }

    #[test]
    fn reading_ends_before_the_first_span_that_is_not_there() {
        let there = [7u8; 3];
        let missing = Span { address: 1, length: 2 };
        let mut into = [0; 8];
        assert_eq!(here().read_many(&[span(&there), missing, span(&there)], &mut into), 1);
        assert_eq!(into[..3], there);
        let fault = here().read_all(&[span(&there), missing], &mut into[..5]);
        assert_eq!(fault, Err(Fault { address: 1 }));
        assert_eq!(here().word(usize::MAX - 3), Err(Fault { address: usize::MAX - 3 }));
    }

    #[test]
    fn more_spans_are_read_than_the_kernel_takes_at_once() {
        let bytes: Vec<u8> = (0..=255).cycle().take(3000).collect();
        let spans: Vec<Span> = bytes.chunks(1).map(span).collect();
        let mut into = vec![0; bytes.len()];
        assert_eq!(here().read_many(&spans, &mut into), 3000);
        assert_eq!(into, bytes);
    }

    #[test]
    fn a_process_that_is_gone_has_no_memory() {
        assert!(RemoteMemory::new(i32::MAX).word(4096).is_err());
    }
}
