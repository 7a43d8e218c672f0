//! Finding the Python runtime of a process.

use crate::cpython::cpython_layout::{Layout, LayoutError};
use crate::linux::memory::{Fault, Memory};
use crate::stacks::stack_reader::Failure;
use py_spy::python_process_info::{get_python_version, PythonProcessInfo};
use py_spy::PythonSpy;
use remoteprocess::Process;

/// The Python of a process and the layout of its memory.
#[derive(Debug)]
pub struct Runtime {
    /// Like "3.11.7".
    pub python: String,
    pub layout: Layout,
}

impl Runtime {
    /// Finds the Python of a process by its symbols, or else with the py-spy crate. The crate reads stacks to validate
    /// an address, which fails in some processes, so it comes last.
    pub fn find(pid: i32, memory: &dyn Memory) -> Result<Runtime, Failure> {
        let process = Process::new(pid).map_err(|error| Failure::new("read", &error))?;
        let pyspy_failure = |error: anyhow::Error| Failure::new("read", &error);
        let info = PythonProcessInfo::new(&process).map_err(pyspy_failure)?;
        let version = get_python_version(&info, &process).map_err(pyspy_failure)?;
        if version.major != 3 {
            return Err(LayoutError::Version.into());
        }
        let python =
            format!("{}.{}.{}{}", version.major, version.minor, version.patch, version.release_flags);
        let symbol = info.get_symbol("_PyRuntime").map(|&address| address as usize);
        // Without symbols, `_PyRuntime` may still have a section.
        let binaries = [&info.python_binary, &info.libpython_binary].into_iter().flatten();
        let sections = binaries.map(|binary| binary.pyruntime_addr as usize).filter(|&address| address != 0);
        for address in symbol.into_iter().chain(sections) {
            match Layout::read(memory, version.minor, address) {
                Ok(layout) => return Ok(Runtime { python, layout }),
                Err(LayoutError::Runtime | LayoutError::Fault(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let spy = PythonSpy::new(pid, &py_spy::Config::default()).map_err(pyspy_failure)?;
        let address = Layout::runtime_address(memory, version.minor, spy.addresses.interpreter_address)?;
        Ok(Runtime { python, layout: Layout::read(memory, version.minor, address)? })
    }
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
            error => Failure::new("other", &error),
        }
    }
}
