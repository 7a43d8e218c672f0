//! Whether the newest call of the running thread has been linked into its stack, for the py-spy reader.
//!
//! `frames` describes the steps in which Python 3.11 and 3.12 enter a call, and how a linked stack is recognised.
//! The py-spy crate does not check this, so its reader checks the thread that holds the GIL before it reads.

use remoteprocess::{Process, ProcessMemory};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The most frames that the crate reads of a thread.
const MAX_FRAMES: usize = 4096;

/// Where fields lie, in bytes, and how a call begins: from the headers of 64-bit CPython, one for all releases of
/// a minor version.
#[derive(Clone, Copy, Debug)]
struct Layout {
    gil: GilPointer,
    /// Of PyThreadState: chunk, top and limit of its data stack, side by side.
    datastack: usize,
    /// Of _PyCFrame; `previous` comes next.
    current_frame: usize,
    /// Of _PyInterpreterFrame, as the rest.
    code: usize,
    previous: usize,
    owner: usize,
    entry: Entry,
    /// Of PyCodeObject.
    instructions: usize,
}

/// What the crate's `threadstate_address` points to.
#[derive(Clone, Copy, Debug)]
enum GilPointer {
    /// The thread state that holds it, or null.
    ThreadState,
    /// A `_gil_runtime_state`.
    GilState,
}

/// How the oldest frame of a `_PyCFrame` is recognised.
#[derive(Clone, Copy, Debug)]
enum Entry {
    /// By its `is_entry`, at this offset.
    Flag(usize),
    /// By its owner.
    OwnedByCStack,
}

const PYTHON_3_11: Layout = Layout {
    gil: GilPointer::ThreadState,
    datastack: 296,
    current_frame: 8,
    code: 32,
    previous: 48,
    owner: 69,
    entry: Entry::Flag(68),
    instructions: 184,
};

const PYTHON_3_12: Layout = Layout {
    gil: GilPointer::GilState,
    datastack: 232,
    current_frame: 0,
    code: 0,
    previous: 8,
    owner: 70,
    entry: Entry::OwnedByCStack,
    instructions: 192,
};

/// `_PyInterpreterFrame` up to its locals.
type Frame = [u8; 72];

// The same in both versions.
const CFRAME: usize = 56;
const PREVIOUS_INSTRUCTION: usize = 56;
const INSTRUCTION_BYTES: usize = 2;
const OWNED_BY_THREAD: u8 = 0;
const OWNED_BY_C_STACK: u8 = 3;
const LAST_HOLDER: usize = 8;
const LOCKED: usize = 16;

/// Checks the thread that holds the GIL, in a stopped process.
#[derive(Debug)]
pub struct FrameLinkage {
    /// None where there is nothing to look for.
    layout: Option<Layout>,
    threadstate_address: usize,
}

impl FrameLinkage {
    /// For a Python of this version whose `threadstate_address` the crate has found, or not (0).
    pub fn new(version: (u64, u64), threadstate_address: usize) -> FrameLinkage {
        let layout = match version {
            _ if threadstate_address == 0 || size_of::<usize>() != 8 => None,
            (3, 11) => Some(PYTHON_3_11),
            (3, 12) => Some(PYTHON_3_12),
            _ => None,
        };
        FrameLinkage { layout, threadstate_address }
    }

    /// If a call is being entered or a pointer leads nowhere: a hash of what was read. None if the stack is linked.
    pub fn incomplete_fingerprint(&self, memory: &Process) -> Option<u64> {
        let layout = self.layout?;
        let mut read = HashingReader { memory, hasher: DefaultHasher::new() };
        match layout.is_complete(self.threadstate_address, &mut read) {
            Some(true) => None,
            _ => Some(read.hasher.finish()),
        }
    }
}

impl Layout {
    fn is_complete(&self, threadstate_address: usize, memory: &mut HashingReader<'_>) -> Option<bool> {
        let thread = self.holder(threadstate_address, memory)?;
        if thread == 0 {
            return Some(true);
        }
        let [cframe]: [usize; 1] = memory.words(thread + CFRAME)?;
        let [newest, before] = memory.words(cframe + self.current_frame)?;
        if before == 0 {
            // The one that the thread began with: no Python code has been called.
            return Some(true);
        }
        let [chunk, top, limit] = memory.words(thread + self.datastack)?;
        if (chunk..limit).contains(&newest) && newest >= top {
            return Some(false);
        }
        let frame = memory.frame(newest)?;
        let first_instruction = word(&frame, self.code).wrapping_add(self.instructions);
        let begun = word(&frame, PREVIOUS_INSTRUCTION) != first_instruction.wrapping_sub(INSTRUCTION_BYTES);
        if frame[self.owner] == OWNED_BY_THREAD && !begun {
            return Some(false);
        }
        let [caller] = memory.words(before + self.current_frame)?;
        self.is_called_from(caller, frame, memory)
    }

    /// The thread state that holds the GIL, or 0.
    fn holder(&self, address: usize, memory: &mut HashingReader<'_>) -> Option<usize> {
        let [holder] = match self.gil {
            GilPointer::ThreadState => memory.words(address)?,
            GilPointer::GilState => match memory.words::<1>(address + LOCKED)? {
                // The word has four bytes.
                [locked] if locked as i32 == 0 => [0],
                _ => memory.words(address + LAST_HOLDER)?,
            },
        };
        Some(holder)
    }

    /// Whether the oldest frame of this frame's `_PyCFrame` was called from `caller`.
    fn is_called_from(
        &self,
        caller: usize,
        mut frame: Frame,
        memory: &mut HashingReader<'_>,
    ) -> Option<bool> {
        for _ in 0..MAX_FRAMES {
            let previous = word(&frame, self.previous);
            let entry = match self.entry {
                Entry::Flag(is_entry) => frame[is_entry] != 0,
                Entry::OwnedByCStack => frame[self.owner] == OWNED_BY_C_STACK,
            };
            if entry {
                return Some(previous == caller);
            }
            frame = memory.frame(previous)?;
        }
        // The crate reports stacks that are too deep itself.
        Some(true)
    }
}

/// Reads, and hashes what it read.
struct HashingReader<'a> {
    memory: &'a Process,
    hasher: DefaultHasher,
}

impl HashingReader<'_> {
    fn words<const N: usize>(&mut self, address: usize) -> Option<[usize; N]> {
        let words: [usize; N] = self.memory.copy_struct(address).ok()?;
        words.hash(&mut self.hasher);
        Some(words)
    }

    fn frame(&mut self, address: usize) -> Option<Frame> {
        let frame: Frame = self.memory.copy_struct(address).ok()?;
        frame.hash(&mut self.hasher);
        Some(frame)
    }
}

fn word(frame: &Frame, offset: usize) -> usize {
    let mut bytes = [0; size_of::<usize>()];
    bytes.copy_from_slice(&frame[offset..][..size_of::<usize>()]);
    usize::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread of Python 3.12 in which C code, called by `caller`, called `entered`, and that called `newest`.
    struct Thread {
        words: [usize; 120],
    }

    // Indexes in `words`.
    const THREAD: usize = 0;
    const GIL: usize = 40;
    const BEFORE: usize = 44;
    const NOW: usize = 46;
    const CODE: usize = 48;
    const CALLER: usize = 80;
    const FROM_C: usize = 90;
    const ENTERED: usize = 100;
    const NEWEST: usize = 110;

    const OWNER_IN_WORD: usize = 48;

    impl Thread {
        fn linked() -> Box<Thread> {
            let mut thread = Box::new(Thread { words: [0; 120] });
            thread.words[GIL + 2] = 1;
            for (index, to) in [
                (GIL + 1, THREAD),
                (THREAD + CFRAME / 8, NOW),
                (THREAD + 29, CALLER),
                (THREAD + 30, NEWEST + 9),
                (THREAD + 31, NEWEST + 10),
                (BEFORE, CALLER),
                (BEFORE + 1, CODE),
                (NOW, NEWEST),
                (NOW + 1, BEFORE),
                (FROM_C + 1, CALLER),
                (ENTERED + 1, FROM_C),
                (NEWEST + 1, ENTERED),
                (NEWEST, CODE),
            ] {
                thread.words[index] = thread.address(to);
            }
            thread.words[FROM_C + 8] = usize::from(OWNED_BY_C_STACK) << OWNER_IN_WORD;
            thread.words[NEWEST + 7] = thread.address(CODE) + PYTHON_3_12.instructions;
            thread
        }

        fn address(&self, index: usize) -> usize {
            self.words.as_ptr() as usize + index * 8
        }

        fn is_complete(&self) -> bool {
            let memory = Process::new(std::process::id() as i32).unwrap();
            FrameLinkage::new((3, 12), self.address(GIL)).incomplete_fingerprint(&memory).is_none()
        }
    }

    #[test]
    fn a_stack_whose_calls_are_all_linked_is_complete() {
        assert!(Thread::linked().is_complete());
    }

    #[test]
    fn nothing_is_being_entered_while_nobody_holds_the_gil() {
        let mut thread = Thread::linked();
        thread.words[NOW] = 1;
        assert!(!thread.is_complete());
        thread.words[GIL + 2] = 0;
        assert!(thread.is_complete());
    }

    #[test]
    fn a_frame_that_ended_is_not_taken_for_the_newest() {
        let mut thread = Thread::linked();
        thread.words[THREAD + 30] = thread.address(NEWEST);
        assert!(!thread.is_complete());
    }

    #[test]
    fn a_frame_of_another_caller_is_not_taken_for_the_newest() {
        let mut thread = Thread::linked();
        thread.words[FROM_C + 1] = thread.address(ENTERED);
        assert!(!thread.is_complete());
    }

    #[test]
    fn a_stack_without_its_root_is_not_complete() {
        let mut thread = Thread::linked();
        thread.words[ENTERED + 1] = 0;
        assert!(!thread.is_complete());
    }

    #[test]
    fn a_frame_that_has_not_begun_may_lack_its_caller_unless_it_is_a_generators() {
        let mut thread = Thread::linked();
        thread.words[NEWEST + 7] -= INSTRUCTION_BYTES;
        assert!(!thread.is_complete());
        thread.words[NEWEST + 8] = 1 << OWNER_IN_WORD;
        assert!(thread.is_complete());
    }

    #[test]
    fn a_stack_that_never_ends_is_left_to_the_reader() {
        let mut thread = Thread::linked();
        thread.words[ENTERED + 1] = thread.address(NEWEST);
        assert!(thread.is_complete());
    }

    #[test]
    fn versions_that_link_in_one_step_are_not_looked_at() {
        let memory = Process::new(std::process::id() as i32).unwrap();
        for version in [(2, 7), (3, 10), (3, 13), (3, 14)] {
            assert!(FrameLinkage::new(version, 1).incomplete_fingerprint(&memory).is_none());
        }
        assert!(FrameLinkage::new((3, 11), 1).incomplete_fingerprint(&memory).is_some());
        assert!(FrameLinkage::new((3, 11), 0).incomplete_fingerprint(&memory).is_none());
    }
}
