//! The sampler's end of reader processes.

use crate::reader_process::limits::{ATTACH_SECONDS, GRACE, READ_SECONDS};
use crate::reader_process::messages::{Answer, FoundRuntime, Reply, Request, MAX_MESSAGE};
use crate::reader_process::socket::{send_socket, wait_readable};
use crate::stacks::stack_reader::Failure;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The kind of failure of a reader process that exceeded its limits.
pub const EXCEEDED: &str = "limit";

/// Starts reader processes. The first call starts their parent, which lives as long as this.
#[derive(Debug)]
pub struct ReaderProcesses {
    /// Program and arguments that run `server::run`.
    command: Vec<String>,
    parent: Mutex<Option<Parent>>,
}

#[derive(Debug)]
struct Parent {
    process: Child,
    control: UnixStream,
}

/// A connection to a reader process, which ends with it.
#[derive(Debug)]
pub struct ReaderProcess {
    connection: UnixStream,
    received: Vec<u8>,
    /// When the request was sent that is not answered yet, and how long it may take.
    pending: Option<(Instant, Duration)>,
    cpu_ns: u64,
    /// CPU time since `take_cpu_ns` was called last.
    new_cpu_ns: u64,
}

impl ReaderProcesses {
    pub fn new(command: Vec<String>) -> ReaderProcesses {
        ReaderProcesses { command, parent: Mutex::new(None) }
    }

    /// Starts a reader process.
    pub fn start(&self) -> Result<ReaderProcess, Failure> {
        let start = || {
            let (connection, remote) = UnixStream::pair()?;
            self.send(&remote)?;
            connection.set_nonblocking(true)?;
            io::Result::Ok(connection)
        };
        let connection = start().map_err(|error| {
            Failure::new("other", &format!("a reader process cannot be started: {error}"))
        })?;
        Ok(ReaderProcess { connection, received: Vec::new(), pending: None, cpu_ns: 0, new_cpu_ns: 0 })
    }

    /// Searches for the runtime of a process that has no symbols.
    pub fn find_runtime(&self, pid: i32) -> Result<FoundRuntime, Failure> {
        match self.start()?.call(Request::FindRuntime { pid })?.result {
            Ok(Answer::Runtime(found)) => Ok(found),
            Ok(_) => Err(unexpected()),
            Err(message) => Err(Failure::new("read", &message)),
        }
    }

    fn send(&self, remote: &UnixStream) -> io::Result<()> {
        let mut parent = self.parent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = &*parent {
            if send_socket(running.control.as_fd(), remote.as_fd()).is_ok() {
                return Ok(());
            }
            // It was ended from outside.
            *parent = None;
        }
        let started = Parent::start(&self.command)?;
        send_socket(started.control.as_fd(), remote.as_fd())?;
        *parent = Some(started);
        Ok(())
    }
}

impl Parent {
    fn start(command: &[String]) -> io::Result<Parent> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(io::Error::other("there is no command for it"));
        };
        let (control, remote) = UnixStream::pair()?;
        let process = Command::new(program)
            .args(arguments)
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(remote)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C is for the sampler, which ends it.
            .process_group(0)
            .spawn()?;
        Ok(Parent { process, control })
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl ReaderProcess {
    /// Sends a request and waits for the reply.
    pub fn call(&mut self, request: Request) -> Result<Reply, Failure> {
        self.send(request)?;
        let limit = self.pending.map_or(Duration::ZERO, |(_, limit)| limit);
        match self.receive(Instant::now() + limit + GRACE)? {
            Some(reply) => Ok(reply),
            None => Err(self.exceeded()),
        }
    }

    /// Sends a request. There must be none pending.
    pub fn send(&mut self, request: Request) -> Result<(), Failure> {
        let seconds = match request {
            Request::Read | Request::ReadNames => READ_SECONDS,
            _ => ATTACH_SECONDS,
        };
        self.pending = Some((Instant::now(), Duration::from_secs(seconds.into())));
        self.connection.write_all(&request.encode()).map_err(|_| self.exceeded())
    }

    /// Whether a request was sent that is not answered yet.
    pub fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Waits for the reply until a time; None if it is not there by then. An error if the process has ended.
    pub fn receive(&mut self, until: Instant) -> Result<Option<Reply>, Failure> {
        loop {
            if let Some(reply) = self.take_reply()? {
                return Ok(Some(reply));
            }
            if !wait_readable(self.connection.as_fd(), until).map_err(|_| self.exceeded())? {
                let overdue = self.pending.is_some_and(|(sent, limit)| sent.elapsed() > limit + GRACE);
                return if overdue { Err(self.exceeded()) } else { Ok(None) };
            }
            let mut bytes = [0; 32 << 10];
            match self.connection.read(&mut bytes) {
                Ok(0) => return Err(self.exceeded()),
                Ok(length) => self.received.extend(&bytes[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(self.exceeded()),
            }
        }
    }

    /// CPU time of the process since the last call, as of its last reply.
    pub fn take_cpu_ns(&mut self) -> u64 {
        std::mem::take(&mut self.new_cpu_ns)
    }

    fn take_reply(&mut self) -> Result<Option<Reply>, Failure> {
        let Some(length) = self.received.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_ne_bytes(*length) as usize;
        if length > MAX_MESSAGE {
            return Err(unexpected());
        }
        let Some(content) = self.received.get(4..4 + length) else { return Ok(None) };
        let reply = Reply::decode(content).ok_or_else(unexpected)?;
        // There is at most one reply at a time.
        self.received.clear();
        self.received.shrink_to(64 << 10);
        self.pending = None;
        self.new_cpu_ns += reply.cpu_ns.saturating_sub(self.cpu_ns);
        self.cpu_ns = self.cpu_ns.max(reply.cpu_ns);
        Ok(Some(reply))
    }

    /// The process has ended, or does not answer.
    fn exceeded(&self) -> Failure {
        let (sent, limit) = self.pending.unwrap_or((Instant::now(), Duration::ZERO));
        let message = match sent.elapsed() >= limit {
            true => format!("reading it takes longer than {} s", limit.as_secs()),
            false => "reading it takes more memory than a reader process may use, or crashed it".to_owned(),
        };
        Failure::new(EXCEEDED, &message)
    }
}

fn unexpected() -> Failure {
    Failure::new(EXCEEDED, &"a reader process gave no valid reply")
}
