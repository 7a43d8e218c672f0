//! The holder of the GIL, for the interpreter that the py-spy crate reads.

use crate::linux::threads::PTHREAD_TID_OFFSET;
use crate::stacks::stack_reader::GilState;
use remoteprocess::ProcessMemory;

/// Where the holder is stored, from the headers of 64-bit CPython, one for all releases of a minor version.
#[derive(Clone, Copy, Debug)]
pub struct GilHolder {
    /// The crate's `threadstate_address`.
    address: usize,
    pointee: Pointee,
    thread: ThreadIdField,
}

/// What names the thread, of PyThreadState.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThreadIdField {
    NativeId(usize),
    /// Its pthread_t: glibc has the kernel's id behind it.
    Pthread(usize),
}

/// What the address points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pointee {
    /// The thread state that holds the GIL, or null.
    ThreadState,
    /// A `_gil_runtime_state`.
    GilState,
}

// Of `_gil_runtime_state`.
const LAST_HOLDER: usize = 8;
const LOCKED: usize = 16;
const SWITCHES: usize = 24;

impl GilHolder {
    /// For a Python of this version; None if it is not known.
    pub fn new(version: (u64, u64), threadstate_address: usize) -> Option<GilHolder> {
        let (pointee, thread) = match version {
            _ if threadstate_address == 0 || size_of::<usize>() != 8 => return None,
            (2, 7) => (Pointee::ThreadState, ThreadIdField::Pthread(144)),
            (3, 6) => (Pointee::ThreadState, ThreadIdField::Pthread(152)),
            (3, 7..=10) => (Pointee::ThreadState, ThreadIdField::Pthread(176)),
            (3, 11) => (Pointee::ThreadState, ThreadIdField::NativeId(160)),
            (3, 12) => (Pointee::GilState, ThreadIdField::NativeId(144)),
            (3, 13 | 14) => (Pointee::GilState, ThreadIdField::NativeId(160)),
            (3, 15) => (Pointee::GilState, ThreadIdField::NativeId(184)),
            _ => return None,
        };
        Some(GilHolder { address: threadstate_address, pointee, thread })
    }

    /// The kernel's id of the holder is None where it is unknown: the target's C library may not be glibc.
    pub fn read(&self, memory: &impl ProcessMemory) -> Option<GilState> {
        let (holder, switches) = match self.pointee {
            Pointee::ThreadState => (memory.copy_struct::<usize>(self.address).ok()?, 0),
            Pointee::GilState => {
                // One read: the two may change between.
                let state: [u64; 4] = memory.copy_struct(self.address).ok()?;
                let locked = state[LOCKED / 8] as u32 != 0;
                (if locked { state[LAST_HOLDER / 8] as usize } else { 0 }, state[SWITCHES / 8])
            }
        };
        let native_id = match (holder, self.thread) {
            (0, _) => None,
            (_, ThreadIdField::NativeId(at)) => {
                i32::try_from(memory.copy_struct::<u64>(holder + at).ok()?).ok()
            }
            // Believed if it names a thread of the process: there are other C libraries.
            (_, ThreadIdField::Pthread(at)) => {
                memory.copy_struct(memory.copy_struct::<usize>(holder + at).ok()? + PTHREAD_TID_OFFSET).ok()
            }
        };
        Some(GilState { holder, native_id, switches })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remoteprocess::Process;

    #[test]
    fn the_holder_is_found_behind_the_address_that_each_version_has() {
        let memory = Process::new(std::process::id() as i32).unwrap();
        let mut thread = vec![0u64; 30];
        (thread[20], thread[18], thread[23]) = (311, 312, 315);
        let thread_address = thread.as_ptr() as usize;
        let read = |version, address| GilHolder::new(version, address).unwrap().read(&memory).unwrap();
        let gil = |native_id, switches| GilState { holder: thread_address, native_id, switches };

        let pointer = [thread_address];
        assert_eq!(read((3, 11), pointer.as_ptr() as usize), gil(Some(311), 0));
        // SAFETY: neither call takes arguments.
        let (tid, pthread) = unsafe { (libc::gettid(), libc::pthread_self() as u64) };
        thread[22] = pthread;
        assert_eq!(read((3, 10), pointer.as_ptr() as usize), gil(Some(tid), 0));
        thread[22] = 1;
        assert_eq!(read((3, 10), pointer.as_ptr() as usize), gil(None, 0));
        assert_eq!(read((3, 11), [0usize].as_ptr() as usize), GilState::default());

        let held = [5000, thread_address as u64, 0xffff_ffff_0000_0001, 9];
        assert_eq!(read((3, 12), held.as_ptr() as usize), gil(Some(312), 9));
        assert_eq!(read((3, 14), held.as_ptr() as usize), gil(Some(311), 9));
        assert_eq!(read((3, 15), held.as_ptr() as usize), gil(Some(315), 9));
        let free = [5000, thread_address as u64, 0xffff_ffff_0000_0000, 9];
        assert_eq!(read((3, 13), free.as_ptr() as usize), GilState { switches: 9, ..GilState::default() });

        assert!(GilHolder::new((3, 16), 1).is_none() && GilHolder::new((3, 5), 1).is_none());
        assert!(GilHolder::new((3, 12), 0).is_none());
        assert!(GilHolder::new((3, 12), 1).unwrap().read(&memory).is_none());
    }
}
