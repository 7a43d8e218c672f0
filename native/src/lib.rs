//! The native extension of Sidelight: the sampling loop of the sidecar, and the collector's hot paths.
//!
//! The modules below are in reading order; each uses only modules above it.
//!
//! The sampler: `engine` is the handle to the one sampling thread and `sampling_loop` is what that thread runs.
//! `attach` prepares a process for it. For one sample, `sample_once` asks `threads` which threads ran, `gil_stop`
//! stops the GIL holder where it must, and `cpython_reader` (or `pyspy_reader`) reads the stacks, which
//! `stack_interner` turns into numbers. `counts` adds them up, `batch` closes the counts of a period, and
//! `shared_session` hands them to Python through `sampler_bindings`. The py-spy crate runs in processes of its own
//! (`reader_process`).
//!
//! The collector: `folded` parses ingested windows, `pprof` sums the samples of pprof profiles (`wire` is their
//! encoding), `trie` builds call trees, `collector_bindings` and `pprof_bindings` export them to Python.

/// What the kernel shows of the target, and the CPU and priority of the sampling thread.
pub mod linux {
    pub mod os;
    pub mod sched_priority;
    pub mod target;
    pub mod proc_file;
    pub mod run_queue;
    pub mod system_call;
    pub mod os_thread;
    pub mod threads;
    pub mod memory;
    pub mod bounded_memory;
    pub mod memory_pool;
    pub mod mappings;
    pub mod elf_image;
    pub mod cpu_affinity;
}

/// Frames and stacks: their texts, their ids, and the interface of a reader.
pub mod stacks {
    pub mod states;
    pub mod escape;
    pub mod frame_text;
    pub mod stack_interner;
    pub mod stack_reader;
}

/// Processes of their own, limited in time and memory, in which the py-spy crate reads a target.
pub mod reader_process {
    pub mod messages;
    pub mod limits;
    pub mod socket;
    pub mod client;
    pub mod server;
}

/// The readers of stacks: one for CPython 3.7 to 3.15, and one over the py-spy crate for other versions.
pub mod cpython {
    pub mod cpython_layout;
    pub mod known_layouts;
    pub mod layout_reader;
    pub mod pyunicode;
    pub mod sys_version;
    pub mod runtime;
    pub mod native_ids;
    pub mod line_table;
    pub mod short_paths;
    pub mod shim_code;
    pub mod code_objects;
    pub mod frames;
    pub mod frame_objects;
    pub mod stack_walker;
    pub mod thread_states;
    pub mod call_entry;
    pub mod cpython_reader;
    pub mod frame_linkage;
    pub mod gil_holder_pyspy;
    pub mod dropped_frames;
    pub mod pyspy_reader;
    pub mod thread_names;
}

/// Stopping as few threads of the target as possible.
pub mod ptrace {
    pub mod syscall_restart;
    pub mod stop_stats;
    pub mod stop_poll;
    pub mod ptrace_stop;
    pub mod gil_stop;
    pub mod thread_stop;
}

/// The tasks of asyncio: their await stacks, and how long they are ready.
pub mod asyncio {
    pub mod task_layout;
    pub mod objects;
    pub mod running_stacks;
    pub mod task_sources;
    pub mod task_lists;
    pub mod await_chain;
    pub mod loop_lag;
    pub mod task_counts;
    pub mod task_listing;
    pub mod task_reader;
}

/// The sampling thread, its sessions, and their batches.
pub mod sampler {
    pub mod counts;
    pub mod batch;
    pub mod sample_ring;
    pub mod shared_session;
    pub mod schedule;
    pub mod sample_once;
    pub mod messages;
    pub mod sampling_loop;
    pub mod engine;
    pub mod attach;
    pub mod snapshot;
    #[cfg(feature = "extension-module")]
    pub(crate) mod sampler_bindings;
}

/// The hot paths of the collector.
pub mod collector {
    pub mod columns;
    pub mod folded;
    pub mod wire;
    pub mod pprof;
    pub mod packed_stacks;
    pub mod segment_stacks;
    pub mod trie;
    mod words;
    #[cfg(feature = "extension-module")]
    pub(crate) mod collector_bindings;
    #[cfg(feature = "extension-module")]
    pub(crate) mod pprof_bindings;
}

#[cfg(feature = "extension-module")]
#[pyo3::pymodule]
mod sidelight_native {
    use pyo3::exceptions::{PyRuntimeError, PyValueError};
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::collector::collector_bindings::{build_segment_stacks, fold, pack_stacks, Pool};
    #[pymodule_export]
    use crate::collector::pprof_bindings::{read_pprof_header, sum_pprof};
    #[pymodule_export]
    use crate::sampler::sampler_bindings::{Batch, Engine, Session, TaskBatch, Timeline};

    /// The version of the py-spy crate this is built over (Cargo.toml pins it).
    #[pymodule_export]
    const PY_SPY_VERSION: &str = "0.4.3";

    #[pymodule_export]
    const STATES: [&str; crate::stacks::states::STATE_COUNT] = crate::stacks::states::STATES;

    #[allow(non_upper_case_globals)]
    #[pymodule_export]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// Becomes the parent of reader processes; returns once standard input, a socket, is closed.
    #[pyfunction]
    fn serve_readers() -> PyResult<()> {
        Ok(crate::reader_process::server::run()?)
    }

    /// Escapes a frame text as the stacks of a batch are escaped.
    #[pyfunction]
    fn escape(text: &str) -> String {
        crate::stacks::escape::escape(text).into_owned()
    }

    /// The stacks of a process by thread, read once by the given reader. Stops no thread.
    #[pyfunction]
    #[pyo3(signature = (pid, *, reader = "own", max_depth = 4096))]
    fn snapshot(pid: i32, reader: &str, max_depth: usize) -> PyResult<Vec<(u64, String)>> {
        let use_cpython_reader = match reader {
            "own" => true,
            "py-spy" => false,
            _ => return Err(PyValueError::new_err("reader must be own or py-spy")),
        };
        crate::sampler::snapshot::snapshot(pid, use_cpython_reader, max_depth)
            .map_err(|failure| PyRuntimeError::new_err(format!("{}: {}", failure.kind, failure.message)))
    }
}
