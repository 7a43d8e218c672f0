//! Files of /proc that are read again and again.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum of files kept open, of all targets together; others are opened each time. Fewer where the limit of open
/// files of this process (RLIMIT_NOFILE) is low.
const MAX_OPEN_FILES: usize = 512;
static OPEN_FILES: AtomicUsize = AtomicUsize::new(0);
/// Of the descriptors that this process may have, a quarter within these bounds is left to the rest of it, but never
/// more than half.
const MIN_RESERVED: u64 = 64;
const MAX_RESERVED: u64 = 256;

/// A file of /proc, kept open if there is room.
#[derive(Debug)]
pub struct ProcFile {
    path: String,
    file: Option<File>,
}

impl ProcFile {
    pub fn new(path: String) -> ProcFile {
        ProcFile { path, file: None }
    }

    /// Reads at most `MAX_BYTES` bytes. None if the file is not there (any more), or may not be read.
    ///
    /// # Errors
    /// If this process is out of descriptors or memory, so that nothing is known about the file.
    pub fn read<const MAX_BYTES: usize, T>(&mut self, parse: impl Fn(&[u8]) -> T) -> io::Result<Option<T>> {
        if let Some(file) = &self.file {
            return read::<MAX_BYTES, T>(file, parse);
        }
        let Some(file) = unless_exhausted(File::open(&self.path))? else { return Ok(None) };
        let text = read::<MAX_BYTES, T>(&file, parse);
        if leaves_room(file.as_raw_fd(), open_files_limit()) {
            match OPEN_FILES.fetch_add(1, Ordering::Relaxed) < MAX_OPEN_FILES {
                true => self.file = Some(file),
                false => _ = OPEN_FILES.fetch_sub(1, Ordering::Relaxed),
            }
        }
        text
    }
}

impl Drop for ProcFile {
    fn drop(&mut self) {
        if self.file.is_some() {
            OPEN_FILES.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn read<const MAX_BYTES: usize, T>(file: &File, parse: impl Fn(&[u8]) -> T) -> io::Result<Option<T>> {
    let mut bytes = [0; MAX_BYTES];
    Ok(unless_exhausted(file.read_at(&mut bytes, 0))?.map(|length| parse(&bytes[..length])))
}

/// Whether an error says that this process is out of descriptors or memory, and nothing about the file.
pub fn is_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

/// None for an error that says something about the file.
///
/// # Errors
/// If this process is out of descriptors or memory.
pub fn unless_exhausted<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_exhausted(&error) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Whether enough descriptors are left if this one stays open: the kernel gives out the lowest number that is free.
fn leaves_room(descriptor: i32, limit: u64) -> bool {
    let reserved = (limit / 4).clamp(MIN_RESERVED, MAX_RESERVED).min(limit / 2);
    (descriptor.max(0) as u64) < limit - reserved
}

/// How many files this process may have open now.
fn open_files_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid to write to.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } {
        0 => limit.rlim_cur,
        _ => 0,
    }
}

/// A whole number in ASCII digits.
pub fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_left_to_the_rest_of_the_program_whatever_the_limit() {
        let kept = |limit| (0..limit as i32).filter(|&n| leaves_room(n, limit)).count();
        assert_eq!([0, 1, 20, 128, 256, 1024, 1 << 20].map(kept), [0, 1, 10, 64, 192, 768, (1 << 20) - 256]);
        assert!(leaves_room(1000, libc::RLIM_INFINITY));
    }

    #[test]
    fn a_file_that_is_not_there_is_told_from_one_that_cannot_be_opened_now() {
        let mut missing = ProcFile::new("/proc/0/stat".into());
        assert_eq!(missing.read::<8, _>(<[u8]>::len).unwrap(), None);
        let mut here = ProcFile::new("/proc/self/stat".into());
        assert_eq!(here.read::<8, _>(<[u8]>::len).unwrap(), Some(8));
        for (code, exhausted) in [(libc::EMFILE, true), (libc::ENFILE, true), (libc::ESRCH, false)] {
            let outcome = unless_exhausted::<()>(Err(io::Error::from_raw_os_error(code)));
            assert_eq!(outcome.is_err(), exhausted);
        }
    }
}
