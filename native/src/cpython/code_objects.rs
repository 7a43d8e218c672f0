//! A cache of code objects: function name, file and lines.
//!
//! A code object can be freed and another be made at the same address, of the same size, with names and tables at
//! the same addresses as well: `exec` in a loop does that. So each cached code object is compared with the process
//! at every tick that meets it. From 3.12 on code objects carry a unique version. Earlier ones have none, so names
//! and table of lines are compared byte by byte. Python 3.14 counts the code objects that were freed: while that
//! count is unchanged nothing needs to be compared.

use crate::cpython::cpython_layout::{Layout, BYTES_FROM_SIZE, INSTRUCTION_BYTES};
use crate::cpython::line_table::LineTable;
use crate::cpython::pyunicode;
use crate::cpython::shim_code::is_shim;
use crate::cpython::short_paths::ShortPaths;
use crate::linux::memory::{int, word, Fault, Memory, ReadSpans, Span};
use crate::linux::memory_pool::{MemoryAccount, MemoryPool};
use crate::stacks::frame_text::{Call, UNKNOWN_FILE};
use crate::stacks::stack_interner::{FrameId, StackInterner};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::time::Instant;

/// The position of a frame: its code object and the address of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodePosition {
    pub code: usize,
    pub instruction: usize,
}

/// How many code objects an interpreter (at this address) has freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreedCode {
    pub interpreter: usize,
    pub count: usize,
}

/// Maximum of cached code objects. Beyond it those that the last tick did not meet are dropped.
const MAX_CACHED: usize = 65_536;
/// Maximum of the memory that cached code objects take. Beyond it those that the last tick did not meet are dropped,
/// and then the lines of the next ones are unknown.
const MAX_BYTES: usize = 24 << 20;
/// The same for all processes.
static POOL: MemoryPool = MemoryPool::new(48 << 20, 1 << 20);
/// A buffer that is kept from one reading to the next is at most this long.
const MAX_KEPT_BYTES: usize = 1 << 20;
/// The deadline is checked after so many positions, which take some 50 µs.
const POSITIONS_PER_TIME_CHECK: usize = 1024;
/// What an entry of the cache takes besides its fields, texts and lines.
const ENTRY_BYTES: usize = size_of::<CodeObject>() + 64;
/// What a byte of a location table takes at most: itself, a row of lines and a frame id for that row.
const BYTES_PER_TABLE_BYTE: usize = 1 + size_of::<(u32, i32)>() + size_of::<Option<FrameId>>();
/// Longer location tables are not read: lines are unknown then.
const MAX_TABLE: usize = 1 << 20;
/// As much of a bytes object as is read at first.
const FIRST_BYTES: usize = 320;
/// The `tp_name` of code objects.
const CODE: &[u8] = b"code\0";

/// The code objects of one process.
#[derive(Debug)]
pub struct CodeObjects {
    layout: Layout,
    paths: ShortPaths,
    cache: FxHashMap<usize, CodeObject>,
    /// The paths of cached code objects that have no version.
    files: FxHashMap<usize, SourcePath>,
    /// What both take.
    memory: MemoryAccount,
    /// The tick that last dropped what was unused.
    dropped_at: u64,
    /// How many were left when there was little room.
    in_use: usize,
    /// Address of the type of code objects, once one was seen.
    code_type: usize,
    /// Counts the calls of `refresh`.
    tick: u64,
    // Kept to be filled again.
    compared: Vec<usize>,
    compared_files: Vec<usize>,
    missing: Vec<usize>,
    spans: Vec<Span>,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct CodeObject {
    /// The tick that last met it and found it unchanged.
    tick: u64,
    /// What was counted when it was last compared.
    freed: Option<FreedCode>,
    /// The object's fields from `firstlineno` to `linetable`.
    fields: Vec<u8>,
    /// Where there is no version: its qualified name and its location table as they lie in memory, and when its
    /// path was last seen to change.
    name: Vec<u8>,
    table: Vec<u8>,
    file_since: u64,
    function: String,
    /// Its path; a short one once a frame was made of it, as that looks at files.
    file: Arc<str>,
    has_short_file: bool,
    /// CPython itself put it between calls.
    is_shim: bool,
    /// Length in code units.
    units: usize,
    lines: Option<LineTable>,
    /// Ids of the frames by row of the lines, and one for an unknown line, in a generation of the interner.
    frames: Vec<Option<FrameId>>,
    generation: u64,
}

/// A path as it lies in memory.
#[derive(Debug)]
struct SourcePath {
    bytes: Vec<u8>,
    /// The ticks that last met it, and that found it changed or new.
    tick: u64,
    since: u64,
}

impl CodeObjects {
    pub fn new(pid: i32, layout: &Layout) -> CodeObjects {
        CodeObjects {
            layout: *layout,
            paths: ShortPaths::new(pid),
            cache: FxHashMap::default(),
            files: FxHashMap::default(),
            memory: MemoryAccount::new(&POOL, MAX_BYTES),
            dropped_at: 0,
            in_use: 0,
            code_type: 0,
            tick: 0,
            compared: Vec::new(),
            compared_files: Vec::new(),
            missing: Vec::new(),
            spans: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Loads or checks the code objects of all positions, so that `frame` can be called. False if `deadline` has
    /// passed.
    pub fn refresh(
        &mut self,
        memory: &dyn Memory,
        positions: &[CodePosition],
        freed: Option<FreedCode>,
        deadline: Option<Instant>,
    ) -> bool {
        self.tick += 1;
        self.compared.clear();
        self.missing.clear();
        let mut dedup_at = POSITIONS_PER_TIME_CHECK;
        for (n, position) in positions.iter().enumerate() {
            if n % POSITIONS_PER_TIME_CHECK == POSITIONS_PER_TIME_CHECK - 1
                && deadline.is_some_and(|deadline| Instant::now() >= deadline)
            {
                self.forget_compared();
                return false;
            }
            match self.cache.get_mut(&position.code) {
                Some(code) if code.tick == self.tick => {}
                Some(code) => {
                    code.tick = self.tick;
                    if freed.is_none() || code.freed != freed {
                        code.freed = freed;
                        self.compared.push(position.code);
                    }
                }
                None => self.missing.push(position.code),
            }
            if self.missing.len() >= dedup_at {
                self.missing.sort_unstable();
                self.missing.dedup();
                dedup_at = POSITIONS_PER_TIME_CHECK + 2 * self.missing.len();
            }
        }
        if !self.compared.is_empty() && !self.drop_changed(memory, deadline) {
            return false;
        }
        self.missing.sort_unstable();
        self.missing.dedup();
        self.load(memory, freed, deadline)
    }

    /// The frame id of a position; None for a frame that is not shown. An error if its code object could not be read.
    pub fn frame(
        &mut self,
        position: CodePosition,
        interner: &mut StackInterner,
    ) -> Result<Option<FrameId>, Fault> {
        let fault = Fault { address: position.code };
        let code = self.cache.get_mut(&position.code).filter(|code| code.tick == self.tick).ok_or(fault)?;
        if code.is_shim {
            return Ok(None);
        }
        if code.generation != interner.generation() {
            code.frames.fill(None);
            code.generation = interner.generation();
        }
        let first = position.code.wrapping_add(self.layout.code.instructions);
        // A frame that has not begun is one unit before the first.
        let ahead =
            position.instruction.wrapping_add(INSTRUCTION_BYTES).wrapping_sub(first) / INSTRUCTION_BYTES;
        let lines = code.lines.as_ref().filter(|_| ahead <= code.units);
        let row = lines.map(|lines| lines.row(ahead as u32));
        let slot = row.unwrap_or(code.frames.len() - 1);
        if let Some(frame) = code.frames[slot] {
            return Ok(Some(frame));
        }
        if !std::mem::replace(&mut code.has_short_file, true) {
            self.memory.remove(code.file.len());
            let short = self.paths.shorten(&code.file);
            code.file = if short.is_empty() { UNKNOWN_FILE.into() } else { short };
            self.memory.add(code.file.len());
        }
        let line = lines.zip(row).map_or(0, |(lines, row)| lines.line(row));
        let frame = interner.intern_frame(&Call { function: &code.function, file: &code.file, line });
        code.frames[slot] = Some(frame);
        Ok(Some(frame))
    }

    /// Compares cached code objects with the process; those that differ become missing. False if `deadline` has
    /// passed: all are to be compared again.
    fn drop_changed(&mut self, memory: &dyn Memory, deadline: Option<Instant>) -> bool {
        let Layout { code: at, text, object, .. } = self.layout;
        self.spans.clear();
        self.compared_files.clear();
        for address in &self.compared {
            let Some(code) = self.cache.get(address) else { continue };
            self.spans.push(Span { address: address + at.firstlineno, length: code.fields.len() });
            if at.has_version {
                continue;
            }
            let [path, name, table] = [at.filename, at.qualname, at.linetable]
                .map(|field| word(&code.fields, field - at.firstlineno));
            self.spans.push(Span { address: name.wrapping_add(text.length), length: code.name.len() });
            self.spans.push(Span { address: table.wrapping_add(object), length: code.table.len() });
            if let Some(file) = self.files.get_mut(&path).filter(|file| file.tick != self.tick) {
                file.tick = self.tick;
                self.compared_files.push(path);
            }
        }
        for path in &self.compared_files {
            let length = self.files.get(path).map_or(0, |file| file.bytes.len());
            self.spans.push(Span { address: path.wrapping_add(text.length), length });
        }
        let size = self.spans.iter().map(|span| span.length).sum();
        if self.bytes.len() < size {
            self.bytes.resize(size, 0);
        }
        let read = memory.read_many(&self.spans, &mut self.bytes[..size]);
        if read < self.spans.len() && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            self.forget_compared();
            return false;
        }
        let mut spans = ReadSpans::new(&self.bytes, read);
        let code_spans = spans;
        // Paths come last and are needed first.
        for span in &self.spans[..self.spans.len() - self.compared_files.len()] {
            spans.skip(span.length);
        }
        for path in &self.compared_files {
            let Some(file) = self.files.get_mut(path) else { continue };
            if !spans.matches(&file.bytes) {
                self.memory.remove(file.size());
                self.files.remove(path);
            }
        }
        spans = code_spans;
        for address in &self.compared {
            let Some(code) = self.cache.get(address) else { continue };
            let mut same = spans.matches(&code.fields);
            if !at.has_version {
                same &= spans.matches(&code.name);
                same &= spans.matches(&code.table);
                let file = self.files.get(&word(&code.fields, at.filename - at.firstlineno));
                same &= file.is_some_and(|file| file.since == code.file_since);
            }
            if !same {
                self.missing.push(*address);
            }
        }
        true
    }

    /// There was no time to compare them.
    fn forget_compared(&mut self) {
        for address in &self.compared {
            self.cache.get_mut(address).into_iter().for_each(|code| (code.freed, code.tick) = (None, 0));
        }
    }

    /// Reads the missing code objects.
    fn load(&mut self, memory: &dyn Memory, freed: Option<FreedCode>, deadline: Option<Instant>) -> bool {
        if self.cache.len() + self.missing.len() > MAX_CACHED {
            self.drop_unused();
        }
        let missing = std::mem::take(&mut self.missing);
        let mut rest = missing.iter();
        while deadline.is_none_or(|deadline| Instant::now() < deadline) {
            let Some(&address) = rest.next() else { break };
            self.remove(address);
            if let Ok(code) = self.read(memory, address) {
                self.insert(address, CodeObject { freed, ..code });
            }
        }
        // The cached versions of the rest are out of date.
        rest.clone().for_each(|&address| self.remove(address));
        let all = rest.len() == 0;
        self.missing = missing;
        all
    }

    /// Frees what a usual reading does not need, and makes room for the next one: it takes long to find what is unused.
    pub fn shrink(&mut self) {
        let is_nearly_full = self.cache.len() > MAX_CACHED / 8 * 7 || !self.memory.has_room(MAX_BYTES / 8);
        if is_nearly_full && self.cache.len() > self.in_use + self.in_use / 8 {
            self.drop_unused();
            self.in_use = self.cache.len();
        }
        if self.bytes.len() > MAX_KEPT_BYTES {
            self.bytes = Vec::new();
        }
    }

    fn insert(&mut self, address: usize, mut code: CodeObject) {
        if !self.make_room(code.size()) {
            code.drop_lines();
        }
        // Otherwise its frames cannot be shown, so the thread counts as one that could not be read.
        if self.make_room(code.size()) {
            self.memory.add(code.size());
            self.cache.insert(address, code);
        }
    }

    /// Whether so many bytes more can be cached; drops for them what this tick has not met.
    fn make_room(&mut self, size: usize) -> bool {
        if !self.memory.has_room(size) && self.dropped_at != self.tick {
            self.dropped_at = self.tick;
            self.drop_unused();
        }
        self.memory.has_room(size)
    }

    fn remove(&mut self, address: usize) {
        if let Some(code) = self.cache.remove(&address) {
            self.memory.remove(code.size());
        }
    }

    /// Drops what this tick has not met.
    fn drop_unused(&mut self) {
        let now = self.tick;
        self.cache.retain(|_, code| code.tick == now);
        self.files.retain(|_, file| file.tick == now);
        self.cache.shrink_to_fit();
        self.bytes = Vec::new();
        let codes: usize = self.cache.values().map(CodeObject::size).sum();
        self.memory.set(codes + self.files.values().map(SourcePath::size).sum::<usize>());
    }

    fn read(&mut self, memory: &dyn Memory, address: usize) -> Result<CodeObject, Fault> {
        let Layout { code: at, text: layout, object: header, .. } = self.layout;
        let mut object = vec![0; at.linetable + size_of::<usize>()];
        memory.read(address, &mut object)?;
        if !self.is_code_type(memory, word(&object, header - size_of::<usize>())) {
            return Err(Fault { address });
        }
        let [path, qualname, table] = [at.filename, at.qualname, at.linetable].map(|at| word(&object, at));
        const TEXT: usize = pyunicode::FIRST_BYTES;
        let mut bytes = [0; TEXT + TEXT + FIRST_BYTES];
        let spans = [(path, TEXT), (qualname, TEXT), (table, FIRST_BYTES)]
            .map(|(address, length)| Span { address, length });
        let read = memory.read_many(&spans, &mut bytes);
        let first = |n: usize| if n < read { &bytes[n * TEXT..][..spans[n].length] } else { &[] };
        let (mut file_bytes, mut name_bytes) = (Vec::new(), Vec::new());
        let (file, name) = if at.has_version {
            (
                pyunicode::read(&layout, memory, path, first(0))?,
                pyunicode::read(&layout, memory, qualname, first(1))?,
            )
        } else {
            // The texts are made of the bytes that are compared later: the process may move while it is read.
            file_bytes = pyunicode::read_raw(&layout, memory, path)?;
            name_bytes = pyunicode::read_raw(&layout, memory, qualname)?;
            let of = |address, raw: &[u8]| pyunicode::decode_raw(&layout, memory, address, raw);
            (of(path, &file_bytes)?, of(qualname, &name_bytes)?)
        };
        // A name that is too long, or no text, has a shorter one of which the same may not be true.
        let name = match name.exact {
            true => name,
            false => pyunicode::read(&layout, memory, word(&object, at.name), &[])
                .ok()
                .filter(|short| short.exact)
                .unwrap_or(name),
        };
        let size = table.wrapping_add(header);
        let first = first(2).get(header..).unwrap_or(&[]);
        let length = read_size(memory, size, first)?;
        let has_room = length <= MAX_TABLE && self.make_room(length * BYTES_PER_TABLE_BYTE);
        let table = copy_table(memory, size, first, if has_room { length } else { usize::MAX })?;
        let lines = table
            .get(BYTES_FROM_SIZE..)
            .map(|table| LineTable::parse(at.lines, table, int(&object, at.firstlineno)));
        let units = match at.bytecode {
            None => word(&object, header),
            Some(bytes) => memory.word(word(&object, bytes).wrapping_add(header))? / INSTRUCTION_BYTES,
        };
        let mut code = CodeObject {
            tick: self.tick,
            freed: None,
            fields: object.split_off(at.firstlineno),
            name: Vec::new(),
            table: Vec::new(),
            file_since: 0,
            is_shim: at.has_version && is_shim(&file.text, &name.text, units),
            function: name.text,
            file: file.text.into(),
            has_short_file: false,
            units,
            frames: vec![None; lines.as_ref().map_or(0, LineTable::count) + 1],
            lines,
            generation: 0,
        };
        if !at.has_version {
            (code.table, code.name) = (table, name_bytes);
            let now = self.tick;
            let known = self.files.get(&path);
            code.file_since = match known.filter(|file| file.bytes == file_bytes) {
                Some(file) => file.since,
                None => {
                    self.memory.remove(known.map_or(0, SourcePath::size));
                    let file = SourcePath { bytes: file_bytes, tick: now, since: now };
                    self.memory.add(file.size());
                    self.files.insert(path, file);
                    now
                }
            };
        }
        Ok(code)
    }

    /// Whether this is the address of the type of code objects.
    fn is_code_type(&mut self, memory: &dyn Memory, address: usize) -> bool {
        if self.code_type == 0 {
            let mut name = [0; CODE.len()];
            let name_address = memory.word(address.wrapping_add(self.layout.types.name));
            if name_address.and_then(|address| memory.read(address, &mut name)).is_ok() && name == *CODE {
                self.code_type = address;
            }
        }
        address == self.code_type && address != 0
    }
}

impl CodeObject {
    /// The memory that it takes.
    fn size(&self) -> usize {
        let lines = self.lines.as_ref().map_or(0, LineTable::size);
        let texts = self.function.len() + self.file.len() + self.fields.len() + self.name.len();
        ENTRY_BYTES + texts + self.table.len() + lines + self.frames.len() * size_of::<Option<FrameId>>()
    }

    /// Its lines are unknown from now on, and of its table only the size is compared.
    fn drop_lines(&mut self) {
        self.lines = None;
        self.frames = vec![None];
        self.table.truncate(size_of::<usize>());
        self.table.shrink_to_fit();
    }
}

impl SourcePath {
    /// The memory that it takes.
    fn size(&self) -> usize {
        self.bytes.len() + size_of::<SourcePath>() + 64
    }
}

/// The size of a bytes object, of which the first bytes from its size on were read (or none).
fn read_size(memory: &dyn Memory, address: usize, first: &[u8]) -> Result<usize, Fault> {
    match first.get(..size_of::<usize>()) {
        Some(bytes) => Ok(word(bytes, 0)),
        None => memory.word(address),
    }
}

/// A bytes object of this length from its size on; with `usize::MAX`, only the size.
fn copy_table(memory: &dyn Memory, address: usize, first: &[u8], length: usize) -> Result<Vec<u8>, Fault> {
    let end = if length == usize::MAX { size_of::<usize>() } else { BYTES_FROM_SIZE + length };
    if let Some(all) = first.get(..end) {
        return Ok(all.to_vec());
    }
    let mut all = vec![0; end];
    memory.read(address, &mut all)?;
    Ok(all)
}
