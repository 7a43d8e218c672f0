//! The messages between the sampler and a reader process.
//!
//! A message is its length in four bytes and its content. Both ends come from the same build, so the format has no
//! version. A reply is data that the target influences: it is parsed as if it came from the target itself.

use std::fmt;

/// A longer message ends the reader process.
pub const MAX_MESSAGE: usize = 8 << 20;
/// Longer texts are cut.
const MAX_TEXT: usize = 16 << 10;

/// What a reader process is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Attach to a process, for `Read`.
    Attach { pid: i32 },
    /// Attach to a process, for `ReadNames`.
    AttachForNames { pid: i32 },
    /// Search for the runtime of a process.
    FindRuntime { pid: i32 },
    /// Read the stacks of all threads.
    Read,
    /// Read the names of all threads.
    ReadNames,
}

/// The answer, with what it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// CPU time of the reader process so far.
    pub cpu_ns: u64,
    /// How long it worked on this request.
    pub took_ns: u64,
    pub result: Result<Answer, String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Attached(Attached),
    Runtime(FoundRuntime),
    Stacks(RawStacks),
    Names(Vec<(u64, String)>),
}

/// The version of a Python.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    pub flags: String,
}

/// A process that can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attached {
    pub version: Version,
    pub interpreter: u64,
    /// The crate's `threadstate_address`; 0 if it is unknown.
    pub threadstate: u64,
}

/// A runtime that the crate found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundRuntime {
    pub version: Version,
    /// Where `_PyRuntime` may be.
    pub addresses: Vec<u64>,
    /// An interpreter state.
    pub interpreter: u64,
}

/// The stacks of all threads, with each frame once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawStacks {
    pub frames: Vec<RawFrame>,
    pub threads: Vec<RawThread>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RawFrame {
    pub function: String,
    pub file: String,
    pub line: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawThread {
    pub thread_id: u64,
    pub native_id: Option<u64>,
    pub owns_gil: bool,
    pub active: bool,
    /// Indexes of frames, leaf first.
    pub frames: Vec<u32>,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}{}", self.major, self.minor, self.patch, self.flags)
    }
}

impl Request {
    pub fn encode(self) -> Vec<u8> {
        let mut to = Encoder::default();
        let (tag, pid) = match self {
            Request::Attach { pid } => (0, pid),
            Request::AttachForNames { pid } => (1, pid),
            Request::FindRuntime { pid } => (2, pid),
            Request::Read => (3, 0),
            Request::ReadNames => (4, 0),
        };
        to.number(tag);
        to.number(pid as u32 as u64);
        to.finish()
    }

    pub fn decode(bytes: &[u8]) -> Option<Request> {
        let mut from = Decoder { rest: bytes };
        let (tag, pid) = (from.number()?, from.number()? as u32 as i32);
        Some(match tag {
            0 => Request::Attach { pid },
            1 => Request::AttachForNames { pid },
            2 => Request::FindRuntime { pid },
            3 => Request::Read,
            4 => Request::ReadNames,
            _ => return None,
        })
    }
}

impl Reply {
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Encoder::default();
        to.number(self.cpu_ns);
        to.number(self.took_ns);
        match &self.result {
            Err(message) => {
                to.number(0);
                to.text(message);
            }
            Ok(Answer::Attached(attached)) => {
                to.number(1);
                to.version(&attached.version);
                to.number(attached.interpreter);
                to.number(attached.threadstate);
            }
            Ok(Answer::Runtime(found)) => {
                to.number(2);
                to.version(&found.version);
                to.number(found.interpreter);
                to.number(found.addresses.len() as u64);
                found.addresses.iter().for_each(|&address| to.number(address));
            }
            Ok(Answer::Stacks(stacks)) => {
                to.number(3);
                to.number(stacks.frames.len() as u64);
                for frame in &stacks.frames {
                    to.text(&frame.function);
                    to.text(&frame.file);
                    to.number(frame.line as u32 as u64);
                }
                to.number(stacks.threads.len() as u64);
                for thread in &stacks.threads {
                    to.number(thread.thread_id);
                    to.number(thread.native_id.is_some().into());
                    to.number(thread.native_id.unwrap_or(0));
                    to.number(thread.owns_gil.into());
                    to.number(thread.active.into());
                    to.number(thread.frames.len() as u64);
                    thread.frames.iter().for_each(|frame| to.bytes.extend(frame.to_ne_bytes()));
                }
            }
            Ok(Answer::Names(names)) => {
                to.number(4);
                to.number(names.len() as u64);
                for (id, name) in names {
                    to.number(*id);
                    to.text(name);
                }
            }
        }
        to.finish()
    }

    /// None if it is no reply.
    pub fn decode(bytes: &[u8]) -> Option<Reply> {
        let mut from = Decoder { rest: bytes };
        let (cpu_ns, took_ns) = (from.number()?, from.number()?);
        let result = match from.number()? {
            0 => Err(from.text()?),
            1 => Ok(Answer::Attached(Attached {
                version: from.version()?,
                interpreter: from.number()?,
                threadstate: from.number()?,
            })),
            2 => {
                let (version, interpreter) = (from.version()?, from.number()?);
                let addresses = from.list(8, Decoder::number)?;
                Ok(Answer::Runtime(FoundRuntime { version, addresses, interpreter }))
            }
            3 => {
                let frames = from.list(24, |from| {
                    let (function, file, line) = (from.text()?, from.text()?, from.number()? as u32 as i32);
                    Some(RawFrame { function, file, line })
                })?;
                let threads = from.list(48, |from| {
                    let (thread_id, known, id) = (from.number()?, from.number()? != 0, from.number()?);
                    let (owns_gil, active) = (from.number()? != 0, from.number()? != 0);
                    let stack =
                        from.list(4, |from| Some(u32::from_ne_bytes(from.take(4)?.try_into().ok()?)))?;
                    let is_known = |&frame: &u32| (frame as usize) < frames.len();
                    stack.iter().all(is_known).then_some(())?;
                    let native_id = known.then_some(id);
                    Some(RawThread { thread_id, native_id, owns_gil, active, frames: stack })
                })?;
                Ok(Answer::Stacks(RawStacks { frames, threads }))
            }
            4 => Ok(Answer::Names(from.list(16, |from| Some((from.number()?, from.text()?)))?)),
            _ => return None,
        };
        Some(Reply { cpu_ns, took_ns, result })
    }
}

/// Content after four bytes for its length.
struct Encoder {
    bytes: Vec<u8>,
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder { bytes: vec![0; 4] }
    }
}

impl Encoder {
    fn number(&mut self, number: u64) {
        self.bytes.extend(number.to_ne_bytes());
    }

    fn text(&mut self, text: &str) {
        let mut end = text.len().min(MAX_TEXT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.number(end as u64);
        self.bytes.extend(&text.as_bytes()[..end]);
    }

    fn version(&mut self, version: &Version) {
        [version.major, version.minor, version.patch].iter().for_each(|&number| self.number(number));
        self.text(&version.flags);
    }

    fn finish(mut self) -> Vec<u8> {
        let length = (self.bytes.len() - 4) as u32;
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes
    }
}

struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.take(8)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        Some(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    fn version(&mut self) -> Option<Version> {
        let (major, minor, patch) = (self.number()?, self.number()?, self.number()?);
        Some(Version { major, minor, patch, flags: self.text()? })
    }

    /// A list of items of at least `item_bytes` bytes each: no more are made room for than can follow.
    fn list<T>(&mut self, item_bytes: usize, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = usize::try_from(self.number()?).ok()?;
        if count > self.rest.len() / item_bytes {
            return None;
        }
        (0..count).map(|_| item(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replies() -> Vec<Reply> {
        let version = Version { major: 3, minor: 10, patch: 13, flags: "rc1".into() };
        let frame = |function: &str, line| RawFrame { function: function.into(), file: "f.py".into(), line };
        let thread = |native_id, frames: &[u32]| RawThread {
            thread_id: 7,
            native_id,
            owns_gil: true,
            active: false,
            frames: frames.into(),
        };
        let answers = [
            Answer::Attached(Attached { version: version.clone(), interpreter: 1, threadstate: 0 }),
            Answer::Runtime(FoundRuntime { version, addresses: vec![1, u64::MAX], interpreter: 3 }),
            Answer::Stacks(RawStacks {
                frames: vec![frame("a", -1), frame("ü", 9)],
                threads: vec![thread(Some(5), &[1, 0, 0]), thread(None, &[])],
            }),
            Answer::Names(vec![(1, "MainThread".into()), (2, String::new())]),
        ];
        let ok = answers.map(|answer| Reply { cpu_ns: 5, took_ns: 9, result: Ok(answer) });
        ok.into_iter().chain([Reply { cpu_ns: 0, took_ns: 0, result: Err("why".into()) }]).collect()
    }

    #[test]
    fn messages_read_as_they_were_written() {
        for reply in replies() {
            let bytes = reply.encode();
            assert_eq!(u32::from_ne_bytes(bytes[..4].try_into().unwrap()) as usize, bytes.len() - 4);
            assert_eq!(Reply::decode(&bytes[4..]), Some(reply));
        }
        for request in [Request::Attach { pid: 7 }, Request::FindRuntime { pid: 8 }, Request::ReadNames] {
            assert_eq!(Request::decode(&request.encode()[4..]), Some(request));
        }
    }

    #[test]
    fn any_bytes_are_a_reply_or_none_and_take_no_more_memory_than_they_are() {
        let mut random = fastrand::Rng::with_seed(26);
        for reply in replies() {
            let bytes = reply.encode().split_off(4);
            for _ in 0..2000 {
                let mut changed = bytes.clone();
                changed.truncate(random.usize(..=bytes.len()));
                for _ in 0..random.usize(..4).min(changed.len()) {
                    let at = random.usize(..changed.len());
                    changed[at] = random.u8(..);
                }
                let _ = Reply::decode(&changed);
            }
        }
    }
}
