//! Whether a seized thread has stopped or ended.

use crate::linux::proc_file::unless_exhausted;
use crate::linux::target::thread_state;
use std::io;

pub enum PollResult {
    Stopped(i32),
    Gone,
    Pending,
}

/// Polls a thread with WNOWAIT, so that its stop stays unreported. If this process is killed before it detaches the
/// thread, the kernel detaches it and delivers the signal that it stopped with. It would not deliver the signal of a
/// stop that was reported to the tracer.
pub fn poll(pid: i32, tid: i32) -> PollResult {
    let exits = if tid == pid { 0 } else { libc::WEXITED };
    match wait_nohang(tid, libc::WSTOPPED | exits | libc::WNOWAIT) {
        None => PollResult::Gone,
        Some(info) if info.pid == 0 => PollResult::Pending,
        // Upper bits: a ptrace event, ours being PTRACE_EVENT_STOP. None: a signal on its way in.
        Some(WaitEvent { code: libc::CLD_TRAPPED | libc::CLD_STOPPED, status, .. }) => {
            PollResult::Stopped(if status >> 8 == 0 { status } else { 0 })
        }
        Some(_) => {
            wait_nohang(tid, libc::WEXITED);
            PollResult::Gone
        }
    }
}

pub struct WaitEvent {
    /// 0: there is no event.
    pub pid: i32,
    code: i32,
    status: i32,
}

/// None if `tid` is not (or no longer) traced by this thread.
pub fn wait_nohang(tid: i32, what: libc::c_int) -> Option<WaitEvent> {
    let options = what | libc::WNOHANG | libc::__WALL | libc::__WNOTHREAD;
    // SAFETY: siginfo_t is plain old data, and `info` is valid to write to.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let failed = unsafe { libc::waitid(libc::P_PID, tid as libc::id_t, &mut info, options) } != 0;
    // SAFETY: waitid filled the child fields, or left the zeros if there was nothing to tell.
    (!failed)
        .then(|| unsafe { WaitEvent { pid: info.si_pid(), code: info.si_code, status: info.si_status() } })
}

/// `poll`, and where there is no event, the state of the thread: its stop may have been reported to another thread
/// of this process that called waitpid, and the exit of a main thread is reported to its parent only.
///
/// The state is read first. Otherwise a thread could end in between and be taken as ended without being reaped, and its
/// process would stay a zombie that its parent cannot reap. A thread whose state cannot be read is polled again: if
/// it has ended, `poll` reports it then.
pub fn poll_with_state(pid: i32, tid: i32) -> PollResult {
    let state = state(pid, tid).ok().flatten();
    match (poll(pid, tid), state) {
        (PollResult::Pending, Some(b'Z' | b'X')) => PollResult::Gone,
        // Stopped since the first poll, or reported to another thread: a second poll decides.
        (PollResult::Pending, Some(b't')) => match poll(pid, tid) {
            PollResult::Pending => PollResult::Stopped(0),
            result => result,
        },
        (result, _) => result,
    }
}

pub fn state(pid: i32, tid: i32) -> io::Result<Option<u8>> {
    let stat = unless_exhausted(std::fs::read(format!("/proc/{pid}/task/{tid}/stat")))?;
    Ok(stat.and_then(|stat| thread_state(&stat)))
}
