//! The states of samples, in the order of their numbers.
//!
//! `sidelight_model.counts` has the same list in Python; a test compares the two.

pub static STATES: [&str; STATE_COUNT] = [
    "idle",
    "running",
    "gil",
    "cpu_wait",
    "gil_wait",
    "lock",
    "poll",
    "io",
    "sleep",
    "task_running",
    "task_ready",
    "task_waiting",
];
pub const STATE_COUNT: usize = 12;
/// The first of them are states of threads, the others of asyncio tasks.
pub const THREAD_STATE_COUNT: usize = 9;
/// A stack ends with these in folded text; running has none.
pub const STATE_SUFFIXES: [&str; STATE_COUNT] = [
    ";[idle]",
    "",
    ";[gil]",
    ";[cpu_wait]",
    ";[gil_wait]",
    ";[lock]",
    ";[poll]",
    ";[io]",
    ";[sleep]",
    ";[task_running]",
    ";[task_ready]",
    ";[task_waiting]",
];
/// The number of the state of a stack without a suffix.
pub const RUNNING: usize = 1;

/// Whether a frame would be read as a state.
pub fn is_state_frame(text: &str) -> bool {
    STATE_SUFFIXES.iter().any(|suffix| suffix.strip_prefix(';') == Some(text))
}
