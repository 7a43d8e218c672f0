//! Files of /proc that are read again and again.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum of files kept open, of all targets together; others are opened each time.
const MAX_OPEN_FILES: usize = 512;
static OPEN_FILES: AtomicUsize = AtomicUsize::new(0);

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

    /// Reads at most `MAX_BYTES` bytes.
    pub fn read<const MAX_BYTES: usize, T>(&mut self, parse: impl Fn(&[u8]) -> T) -> Option<T> {
        if self.file.is_none() {
            let file = File::open(&self.path).ok()?;
            if OPEN_FILES.fetch_add(1, Ordering::Relaxed) >= MAX_OPEN_FILES {
                OPEN_FILES.fetch_sub(1, Ordering::Relaxed);
                return read::<MAX_BYTES, T>(&file, parse);
            }
            self.file = Some(file);
        }
        read::<MAX_BYTES, T>(self.file.as_ref()?, parse)
    }
}

impl Drop for ProcFile {
    fn drop(&mut self) {
        if self.file.is_some() {
            OPEN_FILES.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn read<const MAX_BYTES: usize, T>(file: &File, parse: impl Fn(&[u8]) -> T) -> Option<T> {
    let mut bytes = [0; MAX_BYTES];
    file.read_at(&mut bytes, 0).ok().map(|length| parse(&bytes[..length]))
}

/// A whole number in ASCII digits.
pub fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}
