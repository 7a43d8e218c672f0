//! Where a process has mapped its executable and its libpython.
//!
//! The list of mappings is as long as the process makes it. It is read line by line, in constant memory, and only up
//! to `MAX_BYTES`.

use crate::linux::target::living_thread;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;

/// The default limit of the kernel is 65,530 mappings, of some 100 bytes each.
const MAX_BYTES: u64 = 64 << 20;
const BUFFER_BYTES: usize = 16 << 10;

/// A mapped file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedFile {
    /// The address at which the file begins.
    pub start: usize,
    /// Device as the kernel writes it, like "08:01", and inode.
    pub device: String,
    pub inode: u64,
    /// As the kernel writes it: with ` (deleted)` behind the path of a deleted file.
    pub path: Vec<u8>,
}

/// The two mapped files that may hold the interpreter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PythonImages {
    pub executable: Option<MappedFile>,
    pub libpython: Option<MappedFile>,
}

impl PythonImages {
    /// Finds the beginnings of both files in the memory of a process.
    ///
    /// # Errors
    /// If the process is gone, or its mappings may not be read.
    pub fn find(pid: i32) -> io::Result<PythonImages> {
        let pid = living_thread(pid).unwrap_or(pid);
        let executable = std::fs::read_link(format!("/proc/{pid}/exe"))?;
        let maps = File::open(format!("/proc/{pid}/maps"))?;
        PythonImages::parse(maps, executable.as_os_str().as_bytes())
    }

    fn parse(maps: impl Read, executable: &[u8]) -> io::Result<PythonImages> {
        // The kernel writes a newline in a path as its number here.
        let executable = executable.split(|&byte| byte == b'\n').collect::<Vec<_>>().join(&b"\\012"[..]);
        let mut images = PythonImages::default();
        let mut lines = BufReader::with_capacity(BUFFER_BYTES, maps.take(MAX_BYTES));
        let mut line = Vec::new();
        while images.executable.is_none() || images.libpython.is_none() {
            line.clear();
            if lines.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let Some(file) = parse_first_mapping(line.strip_suffix(b"\n").unwrap_or(&line)) else { continue };
            if file.path == executable && images.executable.is_none() {
                images.executable = Some(file);
            } else if is_libpython(&file.path) && images.libpython.is_none() {
                images.libpython = Some(file);
            }
        }
        Ok(images)
    }
}

/// A line of /proc/PID/maps; None unless it maps the beginning of a file.
fn parse_first_mapping(line: &[u8]) -> Option<MappedFile> {
    let mut rest = line;
    let mut field = || {
        let end = rest.iter().position(|&byte| byte == b' ')?;
        let (field, after) = rest.split_at(end);
        rest = &after[1..];
        std::str::from_utf8(field).ok()
    };
    let (range, _permissions, offset, device, inode) = (field()?, field()?, field()?, field()?, field()?);
    let (start, inode) = (range.split_once('-')?.0, inode.parse().ok()?);
    let start = usize::from_str_radix(start, 16).ok()?;
    if u64::from_str_radix(offset, 16).ok()? != 0 || inode == 0 {
        return None;
    }
    let path = rest.trim_ascii_start().to_vec();
    Some(MappedFile { start, device: device.to_owned(), inode, path })
}

/// Whether a file is called libpython3.11.so or the like, as the py-spy crate recognises it.
pub fn is_libpython(path: &[u8]) -> bool {
    const NAME: &[u8] = b"/libpython";
    let Some(at) = memchr::memmem::rfind(path, NAME) else { return false };
    let version = &path[at + NAME.len()..];
    let digits = |bytes: &[u8]| bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let [major, b'.', minor @ ..] = version else { return false };
    let length = digits(minor);
    if !major.is_ascii_digit() || !(1..=2).contains(&length) {
        return false;
    }
    let flags = &minor[length..];
    flags.strip_prefix(b"m").or(flags.strip_prefix(b"d")).unwrap_or(flags).starts_with(b".so")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &[u8] = b"\
00400000-00401000 r--p 00000000 08:01 41 /usr/bin/my python (deleted)
00401000-00402000 r-xp 00001000 08:01 41 /usr/bin/my python (deleted)
7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n\
7f0000001000-7f0000002000 r-xp 00002000 fe:00 7                          /lib/libpython3.11.so.1.0
7f0000002000-7f0000003000 r--p 00000000 fe:00 7                          /lib/libpython3.11.so.1.0
7f0000003000-7f0000004000 r--p 00000000 fe:00 8                          /other/libpython3.11.so.1.0
";

    #[test]
    fn the_mapping_that_begins_a_file_is_found_and_the_first_libpython_is_used() {
        let images = PythonImages::parse(MAPS, b"/usr/bin/my python (deleted)").unwrap();
        let executable = images.executable.unwrap();
        assert_eq!((executable.start, executable.inode, &*executable.device), (0x40_0000, 41, "08:01"));
        let libpython = images.libpython.unwrap();
        assert_eq!((libpython.start, libpython.inode), (0x7f00_0000_2000, 7));
        assert_eq!(PythonImages::parse(&b"x\n\n- - - - - -\n"[..], b"").unwrap(), PythonImages::default());
    }

    #[test]
    fn a_path_may_have_any_bytes() {
        let maps = &b"00400000-00401000 r--p 00000000 08:01 41 /odd \xff\\012 dir/python\n"[..];
        let images = PythonImages::parse(maps, b"/odd \xff\n dir/python").unwrap();
        assert_eq!(images.executable.unwrap().start, 0x40_0000);
    }

    #[test]
    fn names_of_libpython_are_recognised_with_all_their_flags() {
        for (path, is) in [
            ("/lib/libpython3.11.so.1.0", true),
            ("/lib/libpython3.11.so.1.0 (deleted)", true),
            ("/tmp/_MEI/libpython2.7.so.1.0", true),
            ("./libpython3.4d.so", true),
            ("/usr/local/lib/libpython3.8m.so", true),
            ("/lib/libpython3.so", false),
            ("/lib/libpython3.115.so", false),
            ("/lib/heapq.cpython-36m-linux-gnu.so", false),
            ("/usr/lib/libboost_python.so", false),
        ] {
            assert_eq!(is_libpython(path.as_bytes()), is, "{path}");
        }
    }

    #[test]
    fn the_executable_of_this_process_is_found() {
        let images = PythonImages::find(std::process::id() as i32).unwrap();
        assert!(images.executable.is_some() && images.libpython.is_none());
    }
}
