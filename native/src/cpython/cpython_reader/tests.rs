//! The reader in memory that is not as it should be: that of two moments, and garbage.
//!
//! Real processes are stopped and copied, with all they have in memory; what is read of the copies is what is
//! tampered with. Runs on the Python that is on PATH and on pyenv's.

use super::*;
use crate::linux::memory::{MemoryImage, Span};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Mutex;
use std::time::Duration;

/// Code that is made and freed all the time, beside generators, coroutines, recursion and a thread that waits.
const PROGRAM: &str = r#"
import asyncio, itertools, threading

SOURCE = "def made_{0}(n):\n    if n: return made_{0}(n - 1)\n    for _ in range(99): sum(range(99))\nmade_{0}(3)\n"

def churn():
    for n in itertools.count():
        name = "x" * (n % 7) + str(n % 11)
        exec(compile(SOURCE.format(name), f"made-{n % 13}.py", "exec"), {})

def generate(n):
    if n:
        yield from generate(n - 1)
    else:
        yield sum(range(20))

def generators():
    while True:
        for n in range(9):
            list(generate(n))

async def chain(n):
    if n:
        return await chain(n - 1)
    await asyncio.sleep(0)
    return sum(range(20))

async def coroutines():
    while True:
        await asyncio.gather(*(chain(n) for n in range(9)))

def descend(n):
    return descend(n - 1) if n else sum(range(20))

def recursion():
    while True:
        for n in (1, 10, 100, 500):
            descend(n)

for run in (churn, generators, recursion, threading.Event().wait):
    threading.Thread(target=run).start()
print("ready", flush=True)
asyncio.run(coroutines())
"#;
/// More than any reading of these processes needs.
const MOST_READS: usize = 200_000;
const PAGE: usize = 4096;
/// Moments of each process.
const MOMENTS: usize = 12;
/// In the last byte of an entry of /proc/PID/pagemap.
const PRESENT: u8 = 1 << 7;
const SWAPPED: u8 = 1 << 6;
const UNREAD: &str = "(unread)";
/// Readings of garbage, of each process.
const READINGS: usize = 3000;

/// A Python that runs PROGRAM.
struct Target(Child);

impl Target {
    fn start(python: &PathBuf) -> Target {
        let command = &mut Command::new(python);
        let mut child = command.args(["-c", PROGRAM]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Target(child)
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    /// All its memory, as it is at one moment. It runs before and after.
    fn copy(&self) -> MemoryImage {
        let pid = self.pid();
        std::thread::sleep(Duration::from_millis(fastrand::u64(1..5)));
        let mut status = 0;
        // SAFETY: the process is a child of this one; `status` is valid to write to.
        unsafe {
            assert_eq!(libc::kill(pid, libc::SIGSTOP), 0);
            assert_eq!(libc::waitpid(pid, &mut status, libc::WUNTRACED), pid);
        }
        let mut pieces = MemoryImage::default();
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let pagemap = fs::File::open(format!("/proc/{pid}/pagemap")).unwrap();
        for line in maps.lines().filter(|line| !line.ends_with("[vvar]") && !line.ends_with("[vsyscall]")) {
            let (range, rest) = line.split_once(' ').unwrap();
            if rest.starts_with('r') {
                let (from, to) = range.split_once('-').unwrap();
                let [from, to] = [from, to].map(|end| usize::from_str_radix(end, 16).unwrap());
                let mut entries = vec![0; (to - from) / PAGE * 8];
                let is_anonymous = rest.split_ascii_whitespace().nth(3) == Some("0");
                if !is_anonymous || pagemap.read_exact_at(&mut entries, (from / PAGE * 8) as u64).is_err() {
                    entries.fill(0xff);
                }
                // A mapping may have guard pages in it. Free-threaded Pythons reserve a gigabyte that they do not use.
                let used = entries.chunks(8).map(|entry| entry[7] & (PRESENT | SWAPPED) != 0);
                for (page, _) in (from..to).step_by(PAGE).zip(used).filter(|(_, used)| *used) {
                    let mut bytes = vec![0; PAGE];
                    if RemoteMemory::new(pid).read(page, &mut bytes).is_err() {
                        continue;
                    }
                    match pieces.pieces.last_entry() {
                        Some(mut last) if last.key() + last.get().len() == page => {
                            last.get_mut().append(&mut bytes)
                        }
                        _ => _ = pieces.pieces.insert(page, bytes),
                    }
                }
            }
        }
        // SAFETY: takes no pointers.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGCONT) }, 0);
        pieces
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// The Pythons that the reader knows.
fn pythons() -> Vec<PathBuf> {
    let home = PathBuf::from(std::env::var("HOME").unwrap());
    let installed =
        fs::read_dir(std::env::var("PYENV_ROOT").map_or(home.join(".pyenv"), PathBuf::from).join("versions"));
    let mut found: Vec<PathBuf> = installed
        .into_iter()
        .flatten()
        .map(|version| version.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            ["3.10.", "3.11.", "3.12.", "3.13.", "3.14.", "3.15."]
                .iter()
                .any(|version| name.starts_with(version))
        })
        .map(|path| path.join("bin/python3"))
        .collect();
    found.push("python3".into());
    found
}

/// Checks a process of each Python, whose memory is laid out so.
fn each_python(check: impl Fn(&Target, &Layout)) {
    for python in pythons() {
        let target = Target::start(&python);
        let runtime = Runtime::find(target.pid(), &RemoteMemory::new(target.pid()), None).unwrap();
        check(&target, &runtime.layout);
    }
}

/// The memory of one moment for a number of reads, then that of a later one.
struct Between<'a> {
    moments: [&'a MemoryImage; 2],
    left: AtomicUsize,
}

impl Memory for Between<'_> {
    fn read_many(&self, spans: &[Span], into: &mut [u8]) -> usize {
        let before = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        self.moments[usize::from(!before)].read_many(spans, into)
    }
}

/// Memory of which a part is something else: other words of it, or near ones, or anything.
struct Tampered<'a> {
    truth: &'a MemoryImage,
    /// One word in so many; 0: none.
    one_in: usize,
    chance: Mutex<fastrand::Rng>,
    reads: AtomicUsize,
    /// Addresses that were read.
    read_at: Mutex<BTreeSet<usize>>,
}

impl Tampered<'_> {
    fn tamper(&self, word: usize) -> usize {
        let mut chance = self.chance.lock().unwrap();
        let read_at = self.read_at.lock().unwrap();
        match chance.u8(0..8) {
            0 => 0,
            1 => chance.usize(..),
            2 => chance.usize(..1000),
            3 => word ^ 1 << chance.u32(0..64),
            4 => word.wrapping_add(chance.usize(..64)).wrapping_sub(32),
            5 => usize::MAX - chance.usize(..64),
            // Where something was read: circles.
            _ => read_at.range(chance.usize(..word.max(1))..).next().copied().unwrap_or(word),
        }
    }
}

impl Memory for Tampered<'_> {
    fn read_many(&self, spans: &[Span], into: &mut [u8]) -> usize {
        assert!(self.reads.fetch_add(1, Relaxed) < MOST_READS, "it never ends");
        let mut read = self.truth.read_many(spans, into);
        if self.one_in == 0 {
            return read;
        }
        self.read_at.lock().unwrap().extend(spans.iter().map(|span| span.address));
        for word in into.chunks_exact_mut(size_of::<usize>()) {
            if self.chance.lock().unwrap().usize(..self.one_in) == 0 {
                let known = usize::from_ne_bytes(word.try_into().unwrap());
                word.copy_from_slice(&self.tamper(known).to_ne_bytes());
            }
        }
        if self.chance.lock().unwrap().usize(..self.one_in) == 0 {
            read = self.chance.lock().unwrap().usize(..=read);
        }
        read
    }
}

/// The stacks as text, by thread; None if they could not be read.
fn stacks<M: Memory + Send>(
    reader: &mut CpythonReader<M>,
    interner: &mut StackInterner,
) -> Option<Vec<(u64, String)>> {
    let mut found = Vec::new();
    for interpreter in reader.interpreters().ok()? {
        let stacks = reader.read(interpreter, &mut |_| true, interner).ok()?;
        found.extend(stacks.threads.iter().map(|thread| (thread.thread_id, thread.stack)));
    }
    let texts = interner.frame_texts();
    let text = |stack| interner.frames_of(stack).map_or_else(String::new, |frames| texts.folded(&frames));
    Some(found.into_iter().map(|(thread, stack)| (thread, text(stack))).collect())
}

fn reader<M: Memory>(memory: M, target: &Target, layout: &Layout) -> CpythonReader<M> {
    CpythonReader::new(memory, target.pid(), layout, 1000)
}

#[test]
fn what_was_read_while_the_process_went_on_is_found_out_when_it_stands() {
    each_python(|target, layout| {
        let moments: Vec<MemoryImage> = (0..MOMENTS).map(|_| target.copy()).collect();
        let mut compared = 0;
        for pair in moments.windows(2) {
            let moments = [&pair[0], &pair[1]];
            let between = |reads: usize| Between { moments, left: reads.into() };
            let interner = || StackInterner::new(10_000);
            let right = stacks(&mut reader(between(0), target, layout), &mut interner());
            // What cannot be read stands under what was read last.
            let Some(right) = right.filter(|stacks| !stacks.iter().any(|(_, stack)| stack.contains(UNREAD)))
            else {
                continue;
            };
            for reads in (0..60).chain((60..400).step_by(20)) {
                for knows_it in [false, true] {
                    let (mut reader, mut interner) =
                        (reader(between(usize::MAX), target, layout), interner());
                    if knows_it {
                        stacks(&mut reader, &mut interner);
                    }
                    reader.memory.left = reads.into();
                    stacks(&mut reader, &mut interner);
                    reader.memory.left = 0.into();
                    assert_eq!(
                        stacks(&mut reader, &mut interner).as_ref(),
                        Some(&right),
                        "after {reads} reads"
                    );
                    compared += 1;
                }
            }
        }
        assert!(compared > 0);
    });
}

/// Without a version, a code object is told from another at its address by the bytes of its name: those that were
/// shown, not those that were there a moment later.
#[test]
fn a_name_that_changes_while_it_is_read_is_found_out() {
    each_python(|target, layout| {
        if layout.code.has_version {
            return;
        }
        let found = (0..200).map(|_| target.copy()).find_map(|before| {
            let mut after = before.clone();
            after.pieces.values_mut().for_each(|bytes| replace(bytes, b"descend\0", b"DESCEND\0"));
            let mut reader = reader(Between { moments: [&before, &after], left: 0.into() }, target, layout);
            let right = stacks(&mut reader, &mut StackInterner::new(10_000))?;
            let named = right.iter().any(|(_, stack)| stack.contains("DESCEND"));
            let whole = !right.iter().any(|(_, stack)| stack.contains(UNREAD));
            (named && whole).then_some((before, after, right))
        });
        let (before, after, right) = found.expect("it never recursed");
        for reads in 0.. {
            let between = Between { moments: [&before, &after], left: reads.into() };
            let (mut reader, mut interner) = (reader(between, target, layout), StackInterner::new(10_000));
            stacks(&mut reader, &mut interner);
            let all_before = reader.memory.left.swap(0, Relaxed) > 0;
            assert_eq!(stacks(&mut reader, &mut interner).as_ref(), Some(&right), "after {reads} reads");
            if all_before {
                break;
            }
        }
    });
}

fn replace(bytes: &mut [u8], old: &[u8], new: &[u8]) {
    for at in 0..bytes.len().saturating_sub(old.len()) {
        if bytes[at..].starts_with(old) {
            bytes[at..][..new.len()].copy_from_slice(new);
        }
    }
}

/// Memory of which after some reads nothing is read before the deadline has passed.
struct Late<'a> {
    truth: &'a MemoryImage,
    left: AtomicUsize,
    deadline: Mutex<Instant>,
}

impl Memory for Late<'_> {
    fn read_many(&self, spans: &[Span], into: &mut [u8]) -> usize {
        let left = self.left.load(Relaxed);
        self.left.store(left.saturating_sub(1), Relaxed);
        while left == 0 && Instant::now() < *self.deadline.lock().unwrap() {
            std::thread::yield_now();
        }
        self.truth.read_many(spans, into)
    }
}

/// A moment at which all threads can be read, and their stacks.
fn readable_moment(target: &Target, layout: &Layout) -> (MemoryImage, Vec<(u64, String)>) {
    // Not while a call is entered. What cannot be read at all stands under what was read last.
    let read_whole = |truth: MemoryImage| {
        let right = stacks(&mut reader(truth.clone(), target, layout), &mut StackInterner::new(100))?;
        (!right.iter().any(|(_, stack)| stack.contains(UNREAD))).then_some((truth, right))
    };
    std::iter::repeat_with(|| target.copy()).find_map(read_whole).unwrap()
}

#[test]
fn threads_without_time_for_their_reading_are_read_in_turn() {
    each_python(|target, layout| {
        let (truth, right) = readable_moment(target, layout);
        let late = Late { truth: &truth, left: usize::MAX.into(), deadline: Mutex::new(Instant::now()) };
        let (mut reader, mut interner) = (reader(late, target, layout), StackInterner::new(100));
        let interpreter = reader.interpreters().unwrap()[0];
        // The second time their code is known.
        for _ in 0..2 {
            reader.memory.left = usize::MAX.into();
            assert_eq!(stacks(&mut reader, &mut interner).as_ref(), Some(&right));
        }
        let all_reads = usize::MAX - reader.memory.left.load(Relaxed);
        // Where a part of the threads is read, it would be the same part each time.
        let is_read_in_turn = (1..all_reads).rev().any(|reads| {
            let mut read = std::collections::HashSet::new();
            for round in 0..200 {
                // A tick of its own.
                reader.interpreters().unwrap();
                let now = Instant::now();
                reader.set_deadline(Some(now + Duration::from_millis(20)));
                // After the time for walking, and before that for code.
                *reader.memory.deadline.lock().unwrap() = now + Duration::from_millis(16);
                reader.memory.left = reads.into();
                let found = reader.read(interpreter, &mut |_| true, &mut interner).unwrap_or_default();
                let found = found.threads.iter().filter(|thread| !thread.failed);
                read.extend(found.map(|thread| thread.thread_id));
                if read.len() == right.len() {
                    return round > 0;
                }
            }
            false
        });
        assert!(is_read_in_turn, "{} threads, {all_reads} reads", right.len());
    });
}

#[test]
fn what_is_not_read_in_time_is_slow_or_counted_as_unread_and_read_later() {
    each_python(|target, layout| {
        let (truth, right) = readable_moment(target, layout);
        let (mut slow, mut partial, mut whole) = (0, 0, 0);
        for reads in 0.. {
            let late = Late { truth: &truth, left: usize::MAX.into(), deadline: Mutex::new(Instant::now()) };
            let (mut reader, mut interner) = (reader(late, target, layout), StackInterner::new(100));
            let interpreter = reader.interpreters().unwrap()[0];
            // The first time it is over before the first read.
            let deadline = Instant::now() + Duration::from_millis(if reads == 0 { 0 } else { 10 });
            *reader.memory.deadline.lock().unwrap() = deadline;
            reader.memory.left = reads.into();
            reader.set_deadline(Some(deadline));
            match reader.read(interpreter, &mut |_| true, &mut interner) {
                Err(failure) => {
                    assert_eq!(failure.kind, "slow");
                    slow += 1;
                }
                Ok(read) if read.threads.iter().any(|thread| thread.failed) => partial += 1,
                // The machine was slow before the first read: nothing is known then.
                Ok(_) if Instant::now() < deadline => whole += 1,
                Ok(_) => {}
            }
            reader.set_deadline(None);
            reader.memory.left = usize::MAX.into();
            assert_eq!(stacks(&mut reader, &mut interner).as_ref(), Some(&right), "after {reads} reads");
            if whole > 0 {
                break;
            }
        }
        assert!(slow > 0, "{partial} {whole}");
    });
}

#[test]
fn a_deep_stack_is_cut_in_the_middle_before_its_code_is_read() {
    let frame = |n| CodePosition { code: n, instruction: 0 };
    let mut positions: Vec<CodePosition> = (0..30).map(frame).collect();
    cut_middle(&mut positions, 10, 5);
    assert_eq!(positions.len(), 30);
    cut_middle(&mut positions, 5, 3);
    let kept: Vec<usize> = positions.iter().map(|position| position.code).collect();
    assert_eq!(kept, (0..11).chain(24..30).collect::<Vec<_>>());
}

#[test]
fn garbage_is_an_error_or_a_stack_and_ends() {
    each_python(|target, layout| {
        let moments: Vec<MemoryImage> = (0..MOMENTS).map(|_| target.copy()).collect();
        let mut read = 0;
        for seed in 0..READINGS {
            let mut chance = fastrand::Rng::with_seed(seed as u64);
            let one_in = 1 << chance.u32(3..13);
            let tampered = Tampered {
                truth: &moments[seed % MOMENTS],
                one_in: 0,
                chance: Mutex::new(chance),
                reads: 0.into(),
                read_at: Mutex::default(),
            };
            let (mut reader, mut interner) = (reader(tampered, target, layout), StackInterner::new(10_000));
            if seed % 2 == 0 {
                stacks(&mut reader, &mut interner);
            }
            reader.memory.one_in = one_in;
            for _ in 0..3 {
                reader.memory.reads = 0.into();
                read += usize::from(stacks(&mut reader, &mut interner).is_some());
            }
        }
        // Not all of it was turned down at the door.
        assert!(read > READINGS / 10, "{read}");
    });
}
