//! The interface of a reader of stacks: what it returns, and how it fails.

use crate::linux::proc_file::is_exhausted;
use crate::stacks::stack_interner::{StackId, StackInterner};
use std::io;
use std::ops::Range;
use std::time::Instant;

/// One Python thread at one tick.
#[derive(Clone, Debug)]
pub struct ThreadStack {
    /// Its pthread_t.
    pub thread_id: u64,
    /// The kernel's id of it as the target itself sees it, if known.
    pub native_id: Option<i32>,
    /// Address of the interpreter it belongs to.
    pub interpreter: usize,
    pub owns_gil: bool,
    /// It may run Python code. The reader's guess of activity, for a thread whose OS thread is unknown.
    pub active: bool,
    pub stack: StackId,
    /// Frames were cut out of the stack.
    pub truncated: bool,
    /// The stack could not be read; `stack` has no meaning.
    pub failed: bool,
}

/// Who holds an interpreter's GIL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GilState {
    /// Address of the holder's thread state, or 0: free.
    pub holder: usize,
    /// The holder's kernel id as the target itself sees it.
    pub native_id: Option<i32>,
    /// Changes whenever the GIL goes to another thread, where Python counts that; else 0.
    pub switches: u64,
}

/// All threads of an interpreter, at one time.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    pub threads: Vec<ThreadStack>,
    /// When the reading began.
    pub gil: GilState,
}

/// A reading of memory whose stacks are not built yet: nothing more is read of the target for them.
pub struct MemoryReading<'a> {
    /// When the reading began.
    pub gil: GilState,
    /// The pthread_t of each thread that was read, and the kernel's id of it as the target itself sees it. A thread that
    /// has not run since an earlier reading was not read.
    pub threads: &'a mut dyn Iterator<Item = (u64, Option<i32>)>,
    /// Reads the GIL as it is now.
    pub gil_now: &'a mut dyn FnMut() -> Result<GilState, Failure>,
}

/// Checks a reading of memory, and lets what stood still for it go on. False if the stacks are needed for that: they
/// have to be built by the deadline then.
pub type Verify<'a> = dyn FnMut(MemoryReading<'_>) -> Result<bool, Failure> + 'a;

/// A reading that gave nothing.
#[derive(Clone, Debug)]
pub struct Failure {
    /// One of a small closed set of words.
    pub kind: &'static str,
    pub message: String,
    /// The process stood in the middle of entering a call, or was changed while it was read: let it go and
    /// read once more.
    pub retry: bool,
}

/// The kind of a failure for want of file descriptors.
pub const DESCRIPTORS: &str = "descriptors";

/// Reads the stacks of one process. The caller stops what must not run meanwhile.
pub trait StackReader: Send {
    /// Addresses of the interpreters whose threads `read` gives, the main one first.
    fn interpreters(&mut self) -> Result<Vec<usize>, Failure>;

    /// Stacks are cut at so many frames.
    fn max_depth(&self) -> usize;

    /// Whether thread states of an interpreter name the threads that run them. Before Python 3.13 those of
    /// others than the main one may name the thread that made it.
    fn has_native_ids(&self, _interpreter: usize) -> bool {
        true
    }

    fn gil(&mut self, interpreter: usize) -> Result<GilState, Failure>;

    /// False for a free-threaded build: `read_thread` reads its threads one by one.
    fn has_gil(&self) -> bool {
        true
    }

    /// From now on readings of all threads leave out those that the target knows by these ids and that may run Python
    /// code: they count as failed.
    fn leave_out(&mut self, _native_ids: Vec<i32>) {}

    /// One of the threads that the last reading of all found. Calls `release` once nothing more is read of the target.
    fn read_thread(
        &mut self,
        _interpreter: usize,
        _thread_id: u64,
        _interner: &mut StackInterner,
        _release: &mut dyn FnMut(),
    ) -> Result<ThreadStack, Failure> {
        Err(Failure::new("other", &"its threads are not read one by one"))
    }

    /// Whether `gil_addresses` holds the futexes for which threads sleep until they get a GIL.
    fn has_gil_addresses(&self) -> bool {
        false
    }

    /// Where the GILs were at the last reading. Empty unless `has_gil_addresses`.
    fn gil_addresses(&self) -> Vec<Range<usize>> {
        Vec::new()
    }

    /// A reading fails as `slow` at this time: a thread is stopped for it.
    fn set_deadline(&mut self, _until: Option<Instant>) {}

    /// Nothing is stopped for a reading any more: ends its deadline, and does what was put off.
    fn end_reading(&mut self) {
        self.set_deadline(None);
    }

    /// CPU time that other processes used for this reader since the last call, in nanoseconds.
    fn take_cpu_ns(&mut self) -> u64 {
        0
    }

    /// All threads of an interpreter. `ran` tells of a thread, by the id the target knows it by, whether it may
    /// have run since the last reading: one that has not has the stack it had.
    fn read(
        &mut self,
        interpreter: usize,
        ran: &mut dyn FnMut(i32) -> bool,
        interner: &mut StackInterner,
    ) -> Result<Stacks, Failure> {
        self.read_and_verify(interpreter, ran, interner, &mut |_| Ok(false))
    }

    /// The same. Calls `verify` before it builds stacks, and fails as that does.
    fn read_and_verify(
        &mut self,
        interpreter: usize,
        ran: &mut dyn FnMut(i32) -> bool,
        interner: &mut StackInterner,
        verify: &mut Verify<'_>,
    ) -> Result<Stacks, Failure>;
}

impl Failure {
    pub fn new(kind: &'static str, error: &dyn std::fmt::Display) -> Failure {
        Failure { kind, message: format!("{error:#}"), retry: false }
    }

    /// A file of the process cannot be read: it has ended, or this process is out of descriptors.
    pub fn of_files(error: &io::Error) -> Failure {
        Failure::new(if is_exhausted(error) { DESCRIPTORS } else { "leaving" }, error)
    }

    /// Whether this process is out of descriptors, which says nothing about the target.
    pub fn is_out_of_descriptors(&self) -> bool {
        // As `std::io::Error` prints EMFILE and ENFILE: the py-spy crate gives only texts.
        let texts = ["(os error 24)", "(os error 23)"];
        self.kind == DESCRIPTORS || texts.iter().any(|text| self.message.contains(text))
    }

    /// Worth another try at once.
    pub fn transient(kind: &'static str, error: &dyn std::fmt::Display) -> Failure {
        Failure { retry: true, ..Failure::new(kind, error) }
    }
}
