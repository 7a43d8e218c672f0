//! The reader processes themselves: each runs the py-spy crate on one target, within `limits`.
//!
//! A new Python process with this extension is their parent. It has one thread and little memory, so a fork of it is
//! safe and cheap. It ends when the sampler closes the control socket, and each reader process when the sampler
//! closes its connection.

use crate::cpython::dropped_frames::DroppedFrames;
use crate::cpython::short_paths::ShortPaths;
use crate::linux::mappings::{MappedFile, PythonImages};
use crate::linux::memory::RemoteMemory;
use crate::linux::os::{clock_ns, monotonic_ns};
use crate::linux::sched_priority::SchedPriority;
use crate::linux::target::living_thread;
use crate::reader_process::limits::{self, limit_memory, limit_real_time, prepare_process, set_alarm};
use crate::reader_process::messages::{
    Answer, Attached, FoundRuntime, RawFrame, RawStacks, RawThread, Reply, Request, Version, MAX_MESSAGE,
};
use crate::reader_process::socket::receive_socket;
use crate::stacks::frame_text::UNKNOWN_FILE;
use py_spy::config::LockingStrategy;
use py_spy::python_process_info::{get_python_version, PythonProcessInfo};
use py_spy::{Config, PythonSpy, StackTrace};
use remoteprocess::Process;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// A larger file of the target is not mapped.
const MAX_FILE: u64 = limits::FILE_BYTES / 2;

/// The life of the parent: a fork for every connection that arrives on standard input.
pub fn run() -> io::Result<()> {
    // SAFETY: standard input is open for as long as this process; children are not waited for.
    let control = unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        BorrowedFd::borrow_raw(libc::STDIN_FILENO)
    };
    while let Some(connection) = receive_socket(control)? {
        // SAFETY: this process has a single thread.
        match unsafe { libc::fork() } {
            0 => {
                // SAFETY: nothing in the child uses the control socket.
                unsafe { libc::close(libc::STDIN_FILENO) };
                let served = catch_unwind(AssertUnwindSafe(|| serve(connection)));
                // SAFETY: takes a number. Nothing of the parent is to run in the child.
                unsafe { libc::_exit(i32::from(!matches!(served, Ok(Ok(()))))) };
            }
            -1 => return Err(io::Error::last_os_error()),
            _ => drop(connection),
        }
    }
    Ok(())
}

/// The life of a reader process: answers requests until the connection is closed.
fn serve(connection: OwnedFd) -> io::Result<()> {
    prepare_process();
    limit_real_time();
    limit_memory(limits::ATTACH_BYTES);
    let mut connection = UnixStream::from(connection);
    let mut reader = Reader::default();
    // A thread of the target may be stopped while this process reads it.
    let mut priority = None;
    while let Some(request) = read_request(&mut connection)? {
        let began_ns = monotonic_ns();
        let reading = matches!(request, Request::Read | Request::ReadNames);
        set_alarm(if reading { limits::READ_SECONDS } else { limits::ATTACH_SECONDS });
        let result = reader.answer(request);
        let took_ns = monotonic_ns() - began_ns;
        let cpu_ns = clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID).unwrap_or(0);
        if !reading {
            limit_memory(limits::READ_BYTES);
        }
        match &mut priority {
            None => priority = matches!(request, Request::Attach { .. }).then(SchedPriority::request),
            Some(priority) => priority.review(monotonic_ns(), cpu_ns),
        }
        let mut reply = Reply { cpu_ns, took_ns, result }.encode();
        if reply.len() > MAX_MESSAGE {
            let message = "its stacks are longer than a reader process may return".to_owned();
            reply = Reply { cpu_ns, took_ns, result: Err(message) }.encode();
        }
        set_alarm(0);
        connection.write_all(&reply)?;
    }
    Ok(())
}

/// None once the sampler has closed the connection.
fn read_request(connection: &mut UnixStream) -> io::Result<Option<Request>> {
    let mut length = [0; 4];
    if let Err(error) = connection.read_exact(&mut length) {
        return if error.kind() == io::ErrorKind::UnexpectedEof { Ok(None) } else { Err(error) };
    }
    let mut bytes = vec![0; u32::from_ne_bytes(length) as usize];
    connection.read_exact(&mut bytes)?;
    Request::decode(&bytes).map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The target of a reader process, once it is attached.
#[derive(Default)]
struct Reader {
    pid: i32,
    /// Reads by the id of a thread that has not ended.
    spy: Option<PythonSpy>,
    /// What puts frames back that the crate leaves out, for the versions where that is possible.
    dropped: Option<DroppedFrames>,
    paths: Option<ShortPaths>,
}

impl Reader {
    fn answer(&mut self, request: Request) -> Result<Answer, String> {
        match request {
            Request::Attach { pid } => self.attach(pid, false),
            Request::AttachForNames { pid } => self.attach(pid, true),
            Request::FindRuntime { pid } => {
                let pid = living_thread(pid).unwrap_or(pid);
                check_files(pid)?;
                find_runtime(pid).map(Answer::Runtime).map_err(|error| format!("{error:#}"))
            }
            Request::Read => {
                let mut traces = self.spy()?.get_stack_traces();
                if traces.is_err() && self.follow_living_thread() {
                    traces = self.spy()?.get_stack_traces();
                }
                let mut traces = traces.map_err(|error| format!("{error:#}"))?;
                let interpreter = self.spy()?.addresses.interpreter_address;
                if let Some(dropped) = &self.dropped {
                    let memory = RemoteMemory::new(self.pid);
                    let restored = dropped.restore(&memory, interpreter, &mut traces);
                    restored.map_err(|fault| format!("failed to copy frames: {fault}"))?;
                }
                Ok(Answer::Stacks(collect_stacks(traces, self.paths.as_mut())))
            }
            Request::ReadNames => {
                self.follow_living_thread();
                let spy = self.spy()?;
                spy.python_thread_names.clear();
                // Fails now and then, as the process goes on meanwhile; the names may be there all the same.
                let _ = spy.get_stack_traces();
                let names = spy.python_thread_names.drain();
                Ok(Answer::Names(names.filter_map(|(id, name)| Some((id, name?))).collect()))
            }
        }
    }

    fn attach(&mut self, process: i32, names: bool) -> Result<Answer, String> {
        let pid = living_thread(process).unwrap_or(process);
        check_files(pid)?;
        let spy = PythonSpy::new(pid, &config(names)).map_err(|error| format!("{error:#}"))?;
        let version = to_version(&spy);
        let (interpreter, threadstate) =
            (spy.addresses.interpreter_address as u64, spy.addresses.threadstate_address as u64);
        self.dropped = DroppedFrames::new((version.major, version.minor));
        self.paths = Some(ShortPaths::new(pid));
        (self.pid, self.spy) = (process, Some(spy));
        Ok(Answer::Attached(Attached { version, interpreter, threadstate }))
    }

    /// Reads by the id of another thread if the last one has ended. True if there is one.
    fn follow_living_thread(&mut self) -> bool {
        let (Some(spy), Some(living)) = (&mut self.spy, living_thread(self.pid)) else { return false };
        let other = spy.process.pid != living;
        spy.process.pid = living;
        other
    }

    fn spy(&mut self) -> Result<&mut PythonSpy, String> {
        self.spy.as_mut().ok_or_else(|| "no process is attached".into())
    }
}

/// The crate must not stop the target (`ptrace_stop` does), and must include idle threads: `counts` decides which
/// threads are idle.
fn config(names: bool) -> Config {
    Config {
        blocking: LockingStrategy::NonBlocking,
        include_idle: true,
        gil_only: false,
        native: false,
        subprocesses: false,
        collect_thread_names: names,
        dump_locals: 0,
        full_filenames: false,
        ..Config::default()
    }
}

fn to_version(spy: &PythonSpy) -> Version {
    let version = &spy.version;
    Version {
        major: version.major,
        minor: version.minor,
        patch: version.patch,
        flags: version.release_flags.clone(),
    }
}

/// Finds the runtime without symbols. The crate reads stacks to validate an address, which fails in some processes:
/// then an error.
fn find_runtime(pid: i32) -> Result<FoundRuntime, anyhow::Error> {
    let process = Process::new(pid)?;
    let info = PythonProcessInfo::new(&process)?;
    let version = get_python_version(&info, &process)?;
    let version = Version {
        major: version.major,
        minor: version.minor,
        patch: version.patch,
        flags: version.release_flags,
    };
    let symbol = info.get_symbol("_PyRuntime").copied();
    // Without symbols, `_PyRuntime` may still have a section.
    let binaries = [&info.python_binary, &info.libpython_binary].into_iter().flatten();
    let sections = binaries.map(|binary| binary.pyruntime_addr).filter(|&address| address != 0);
    let addresses: Vec<u64> = symbol.into_iter().chain(sections).collect();
    let interpreter = match addresses.is_empty() {
        true => PythonSpy::new(pid, &Config::default())?.addresses.interpreter_address as u64,
        false => 0,
    };
    Ok(FoundRuntime { version, addresses, interpreter })
}

fn collect_stacks(traces: Vec<StackTrace>, mut paths: Option<&mut ShortPaths>) -> RawStacks {
    let (mut stacks, mut indexes) = (RawStacks::default(), HashMap::new());
    for trace in traces {
        let mut frames = Vec::with_capacity(trace.frames.len());
        for frame in trace.frames {
            let file = match (frame.short_filename, &mut paths) {
                (Some(short), _) => short,
                // Frames that were put back.
                (None, Some(paths)) => paths.shorten(&frame.filename).to_string(),
                (None, None) => frame.filename,
            };
            let file = if file.is_empty() { UNKNOWN_FILE.to_owned() } else { file };
            let frame = RawFrame { function: frame.name, file, line: frame.line };
            let next = indexes.len() as u32;
            frames.push(*indexes.entry(frame).or_insert_with_key(|frame| {
                stacks.frames.push(frame.clone());
                next
            }));
        }
        stacks.threads.push(RawThread {
            thread_id: trace.thread_id,
            native_id: trace.os_thread_id,
            owns_gil: trace.owns_gil,
            active: trace.active,
            frames,
        });
    }
    stacks
}

/// Refuses files that the crate should not open. It opens them once more, when they may have changed: that is what
/// the limits of this process are for. This check gives a clear error at once.
fn check_files(pid: i32) -> Result<(), String> {
    let Ok(images) = PythonImages::find(pid) else { return Ok(()) };
    check_file(&format!("/proc/{pid}/exe"), None)?;
    match images.libpython {
        Some(file) => {
            let path = std::ffi::OsStr::from_bytes(&file.path).to_string_lossy().into_owned();
            check_file(&format!("/proc/{pid}/root{path}"), Some(&file))
        }
        None => Ok(()),
    }
}

fn check_file(path: &str, mapped: Option<&MappedFile>) -> Result<(), String> {
    // O_PATH neither waits for a FIFO nor touches a device.
    let opened = open_path(path).map_err(|error| format!("{path} cannot be opened: {error}"))?;
    let file = opened.metadata().map_err(|error| format!("{path}: {error}"))?;
    if !file.is_file() {
        return Err(format!("{path} is not a regular file"));
    }
    if file.len() > MAX_FILE {
        return Err(format!("{path} has {} bytes, and at most {MAX_FILE} are read", file.len()));
    }
    // An overlay file system has other devices in the list of mappings, and then other inodes.
    let device = format!("{:02x}:{:02x}", libc::major(file.dev()), libc::minor(file.dev()));
    if mapped.is_some_and(|mapped| mapped.device == device && mapped.inode != file.ino()) {
        return Err(format!("{path} is no longer the file that the process has mapped: restart the process"));
    }
    Ok(())
}

fn open_path(path: &str) -> io::Result<File> {
    let path = std::ffi::CString::new(path)?;
    // SAFETY: `path` is a C string; the descriptor is new and owned by the file.
    unsafe {
        let opened = libc::open(path.as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
        if opened < 0 {
            return Err(io::Error::last_os_error());
        }
        let file = File::from_raw_fd(opened);
        debug_assert_eq!(file.as_raw_fd(), opened);
        Ok(file)
    }
}
