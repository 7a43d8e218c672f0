//! Samples running Python processes and counts what it finds: the sampling loop of Sidelight, over the py-spy
//! crate. And what takes most of a collector's time: `folded` reads what arrived, `trie` draws what is asked for;
//! `kernel` is their Python face.
//!
//! `session` is the Python face; `engine` the handle to the one sampling thread, `rounds` what it does, `place` where
//! it waits. A tick
//! goes `tick` (who ran) → `gil` (who has to stand still) → `reader` (what did the threads run) → `book` (as
//! numbers) → `counts` → `batch` (what Python takes away, through `watch`).

pub mod attach;
pub mod batch;
pub mod book;
pub mod code;
pub mod counts;
pub mod engine;
pub mod entering;
pub mod escape;
pub mod folded;
pub mod frames;
pub mod gil;
pub mod holder;
#[cfg(feature = "extension-module")]
mod kernel;
pub mod layout;
pub mod lines;
pub mod linkage;
pub mod memory;
pub mod names;
pub mod os;
pub mod os_thread;
pub mod own;
pub mod paths;
pub mod place;
pub mod priority;
pub mod reader;
pub mod ring;
pub mod rounds;
pub mod runtime;
pub mod sample;
pub mod schedule;
#[cfg(feature = "extension-module")]
mod session;
pub mod snapshot;
pub mod stack;
pub mod states;
pub mod stop;
pub mod target;
pub mod text;
pub mod threads;
pub mod tick;
pub mod trie;
pub mod waits;
pub mod watch;

#[cfg(feature = "extension-module")]
#[pyo3::pymodule]
mod sidelight_native {
    use pyo3::exceptions::{PyRuntimeError, PyValueError};
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::kernel::{fold, Pool};
    #[pymodule_export]
    use crate::session::{Batch, Engine, Session, Timeline};

    /// The version of the py-spy crate this is built over (Cargo.toml pins it).
    #[pymodule_export]
    const PY_SPY_VERSION: &str = "0.4.3";

    #[allow(non_upper_case_globals)]
    #[pymodule_export]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// Escapes a frame text as the stacks of a batch are escaped.
    #[pyfunction]
    fn escape(text: &str) -> String {
        crate::escape::escape(text).into_owned()
    }

    /// The stacks of a process as one reader finds them, by thread. Nothing is stopped for it.
    #[pyfunction]
    #[pyo3(signature = (pid, *, reader = "own", max_depth = 4096))]
    fn snapshot(pid: i32, reader: &str, max_depth: usize) -> PyResult<Vec<(u64, String)>> {
        let own = match reader {
            "own" => true,
            "py-spy" => false,
            _ => return Err(PyValueError::new_err("reader must be own or py-spy")),
        };
        crate::snapshot::snapshot(pid, own, max_depth)
            .map_err(|failure| PyRuntimeError::new_err(format!("{}: {}", failure.kind, failure.message)))
    }
}
