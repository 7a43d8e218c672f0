//! Finding the Python runtime of a process.

use crate::cpython::cpython_layout::Layout;
use crate::cpython::layout_reader::LayoutError;
use crate::cpython::sys_version;
use crate::linux::elf_image::ElfImage;
use crate::linux::mappings::PythonImages;
use crate::linux::memory::{Fault, Memory};
use crate::reader_process::client::ReaderProcesses;
use crate::reader_process::messages::FoundRuntime;
use crate::stacks::stack_reader::Failure;

/// The kind of a failure that no other reader can help.
pub const FREE_THREADED: &str = "free-threaded";

/// The Python of a process and the layout of its memory.
#[derive(Debug)]
pub struct Runtime {
    /// Like "3.11.7".
    pub python: String,
    pub layout: Layout,
}

/// Whether the threads of a process sleep on words inside of the GIL while they wait for it. Those of musl, which sleep
/// on words of their own stacks, do not.
pub fn waits_inside_gil(pid: i32, memory: &dyn Memory) -> bool {
    let executable = PythonImages::find(pid).ok().and_then(|images| images.executable);
    let linker = executable.map(|file| ElfImage::linker_path(memory, file.start));
    !matches!(linker, Some(Ok(path)) if path.windows(4).any(|part| part == b"musl"))
}

impl Runtime {
    /// Finds the Python of a process by its dynamic symbols, in its memory. For a program without them the py-spy
    /// crate searches, in a process of its own.
    pub fn find(
        pid: i32,
        memory: &dyn Memory,
        processes: Option<&ReaderProcesses>,
    ) -> Result<Runtime, Failure> {
        match Runtime::find_by_symbols(pid, memory)? {
            Some(runtime) => Ok(runtime),
            None => {
                let none = || Failure::new("other", &"it has no symbols of Python");
                Runtime::from_found(memory, processes.ok_or_else(none)?.find_runtime(pid)?)
            }
        }
    }

    /// None if neither the executable nor libpython has Python's symbols.
    fn find_by_symbols(pid: i32, memory: &dyn Memory) -> Result<Option<Runtime>, Failure> {
        let images = PythonImages::find(pid).map_err(|error| Failure::new("read", &error))?;
        for file in [images.executable, images.libpython].into_iter().flatten() {
            let Some(image) = ElfImage::read(memory, file.start)? else { continue };
            let address = image.symbol("_PyRuntime")?;
            if let (Some(version), Some(address)) = (image.symbol("Py_Version")?, address) {
                let mut bytes = [0; 4];
                memory.read(version, &mut bytes)?;
                let (python, minor) = decode_version(u32::from_ne_bytes(bytes));
                let layout = Layout::read(memory, minor, address).map_err(starting)?;
                return Ok(Some(Runtime { python, layout }));
            }
            match (find_minor(&image)?, address) {
                (Some(minor), Some(address)) => {
                    return Runtime::read_before_3_11(memory, minor, address).map(Some)
                }
                (Some(_), None) => return Err(LayoutError::Version.into()),
                (None, _) => {}
            }
        }
        Ok(None)
    }

    /// The runtime of a Python 3.`minor` that has no `Py_Version`.
    fn read_before_3_11(memory: &dyn Memory, minor: u64, address: usize) -> Result<Runtime, Failure> {
        let layout = Layout::read(memory, minor, address).map_err(starting)?;
        let main = layout.interpreters(memory)?.first().copied().unwrap_or(0);
        let version = sys_version::read(memory, &layout, main)?.unwrap_or(0);
        match decode_version(version) {
            (python, found) if found == minor => Ok(Runtime { python, layout }),
            _ => Err(starting(LayoutError::Runtime)),
        }
    }

    fn from_found(memory: &dyn Memory, found: FoundRuntime) -> Result<Runtime, Failure> {
        let FoundRuntime { version, addresses, interpreter } = found;
        if version.major != 3 {
            return Err(LayoutError::Version.into());
        }
        for address in addresses {
            match Layout::read(memory, version.minor, address as usize) {
                Ok(layout) => return Ok(Runtime { python: version.to_string(), layout }),
                Err(LayoutError::Runtime | LayoutError::Fault(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let address = Layout::runtime_address(memory, version.minor, interpreter as usize)?;
        Ok(Runtime { python: version.to_string(), layout: Layout::read(memory, version.minor, address)? })
    }
}

/// The minor version of a Python 3.7 to 3.10 by the functions that each version added to its C API, 0 for an earlier
/// Python; None for no Python.
fn find_minor(image: &ElfImage<'_>) -> Result<Option<u64>, Fault> {
    const ADDED: [(&str, u64); 5] = [
        ("PyIter_Send", 10),
        ("PyFrame_GetCode", 9),
        ("PyCode_NewWithPosOnlyArgs", 8),
        ("_PyRuntime", 7),
        ("Py_GetVersion", 0),
    ];
    for (function, minor) in ADDED {
        if image.symbol(function)?.is_some() {
            return Ok(Some(minor));
        }
    }
    Ok(None)
}

/// What is not there yet may come: the process may be starting.
fn starting(error: LayoutError) -> Failure {
    match error {
        LayoutError::Runtime => Failure::new("read", &error),
        error => error.into(),
    }
}

/// A `PY_VERSION_HEX`: the version, like "3.11.7" or "3.14.0rc1", and the minor version (0: not Python 3).
fn decode_version(version: u32) -> (String, u64) {
    let [major, minor, micro, release] = version.to_be_bytes();
    let serial = release & 15;
    let suffix = match release >> 4 {
        0xA => format!("a{serial}"),
        0xB => format!("b{serial}"),
        0xC => format!("rc{serial}"),
        _ => String::new(),
    };
    (format!("{major}.{minor}.{micro}{suffix}"), if major == 3 { minor.into() } else { 0 })
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Failure {
        Failure::new("read", &fault)
    }
}

impl From<LayoutError> for Failure {
    fn from(error: LayoutError) -> Failure {
        match error {
            LayoutError::Fault(fault) => fault.into(),
            LayoutError::FreeThreaded => Failure::new(FREE_THREADED, &error),
            error => Failure::new("other", &error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_number_reads_as_python_prints_it() {
        assert_eq!(decode_version(0x030b_07f0), ("3.11.7".into(), 11));
        assert_eq!(decode_version(0x030e_00c1), ("3.14.0rc1".into(), 14));
        assert_eq!(decode_version(0x030f_00a4), ("3.15.0a4".into(), 15));
        assert_eq!(decode_version(0), ("0.0.0".into(), 0));
    }
}
