//! Dicts, attributes, sets and types of another process.
//!
//! PyDictObject (Include/cpython/dictobject.h), its keys (Include/internal/pycore_dict.h), PySetObject
//! (Include/cpython/setobject.h): the same in CPython 3.11 to 3.13.

use crate::asyncio::task_layout::{Attributes, TaskLayout};
use crate::cpython::cpython_layout::{Layout, LENGTH, TYPE};
use crate::cpython::pyunicode;
use crate::linux::memory::{word, Fault, Memory, Span};
use rustc_hash::FxHashMap;

const WORD: usize = size_of::<usize>();
/// Of a dict: its keys, and the values next to them.
const KEYS: usize = 32;
/// Of keys: the logarithm of the size of the index, the kind, the number of entries, and the index.
const INDEX_LOG: usize = 9;
const KIND: usize = 10;
const COUNT: usize = 24;
const INDEX: usize = 32;
const GENERAL: u8 = 0;
const MAX_ENTRIES: usize = 1 << 16;
/// Of a set: how many members there are, one less than its slots, and its table of (member, hash).
const SET_USED: usize = 24;
const SET_MASK: usize = 32;
const SLOT: usize = 2 * WORD;
/// Larger tables are not read.
const MAX_TABLE: usize = 4 << 20;
/// Of types.
const BASE: usize = 256;
const MAX_BASES: usize = 64;
const NAME_BYTES: usize = 48;
/// Types may be freed and others be made at their addresses.
const MAX_TYPES: usize = 1024;

/// What a type means to a chain of awaits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Generator,
    /// Awaits what is at `NEXT`.
    Wrapper,
    /// Awaits the future at `NEXT`.
    FutureIterator,
    /// Implemented in C, or a subclass of that.
    Task,
    Future,
    /// `asyncio.tasks._PyTask` or a subclass, or a future in Python.
    PythonFuture,
    Deque,
    Set,
    Other,
    /// A `_asyncio.Task` of another size.
    Unknown,
}

/// Reads objects of one process.
#[derive(Debug)]
pub struct Objects {
    pub layout: Layout,
    pub at: TaskLayout,
    kinds: FxHashMap<usize, Kind>,
}

/// Reads spans of one length; what cannot be read is zero. True if all were read.
pub fn read_each(memory: &dyn Memory, addresses: &[usize], length: usize, bytes: &mut Vec<u8>) -> bool {
    bytes.clear();
    bytes.resize(addresses.len() * length, 0);
    let spans: Vec<Span> = addresses.iter().map(|&address| Span { address, length }).collect();
    let (mut from, mut all) = (0, true);
    while from < spans.len() {
        from += memory.read_many(&spans[from..], &mut bytes[from * length..]);
        if from < spans.len() {
            bytes[from * length..][..length].fill(0);
            (from, all) = (from + 1, false);
        }
    }
    all
}

impl Objects {
    pub fn new(layout: &Layout, at: TaskLayout) -> Objects {
        Objects { layout: *layout, at, kinds: FxHashMap::default() }
    }

    /// Forgets what was learnt, now and then.
    pub fn shrink(&mut self) {
        if self.kinds.len() > MAX_TYPES {
            self.kinds.clear();
        }
    }

    fn type_name(&self, memory: &dyn Memory, kind: usize) -> Result<Vec<u8>, Fault> {
        let address = memory.word(kind.wrapping_add(self.layout.types.name))?;
        let mut name = [0; NAME_BYTES];
        // A short name may end at the end of what is mapped.
        if memory.read(address, &mut name).is_err() {
            memory.read(address, &mut name[..16])?;
        }
        Ok(name.split(|&byte| byte == 0).next().unwrap_or_default().to_vec())
    }

    /// The kind of a type.
    pub fn kind(&mut self, memory: &dyn Memory, address: usize) -> Result<Kind, Fault> {
        if let Some(&kind) = self.kinds.get(&address) {
            return Ok(kind);
        }
        let kind = self.find_kind(memory, address)?;
        self.kinds.insert(address, kind);
        Ok(kind)
    }

    fn find_kind(&self, memory: &dyn Memory, address: usize) -> Result<Kind, Fault> {
        let (mut base, mut python) = (address, false);
        for n in 0..MAX_BASES {
            if base == 0 {
                break;
            }
            let name = self.type_name(memory, base)?;
            match &name[..] {
                b"coroutine" | b"generator" | b"async_generator" if n == 0 => return Ok(Kind::Generator),
                b"coroutine_wrapper"
                | b"async_generator_asend"
                | b"async_generator_athrow"
                | b"anext_awaitable"
                    if n == 0 =>
                {
                    return Ok(Kind::Wrapper)
                }
                b"FutureIter" | b"_asyncio.FutureIter" if n == 0 => return Ok(Kind::FutureIterator),
                b"collections.deque" => return Ok(Kind::Deque),
                b"set" if n == 0 => return Ok(Kind::Set),
                b"_asyncio.Task" => {
                    let size = memory.word(base.wrapping_add(self.layout.types.basicsize))?;
                    return Ok(if size == self.at.size { Kind::Task } else { Kind::Unknown });
                }
                b"_asyncio.Future" => return Ok(Kind::Future),
                b"Future" => python = true,
                _ => {}
            }
            base = memory.word(base.wrapping_add(BASE))?;
        }
        Ok(if python { Kind::PythonFuture } else { Kind::Other })
    }

    /// The kind of an object.
    pub fn kind_of(&mut self, memory: &dyn Memory, object: usize) -> Result<Kind, Fault> {
        let kind = memory.word(object.wrapping_add(TYPE))?;
        self.kind(memory, kind)
    }

    /// Keys and values; of shared keys, no values.
    fn entries(&self, memory: &dyn Memory, keys: usize) -> Result<Vec<(usize, usize)>, Fault> {
        let mut header = [0; INDEX];
        memory.read(keys, &mut header)?;
        let count = word(&header, COUNT);
        if count > MAX_ENTRIES || header[INDEX_LOG] > 32 {
            return Err(Fault { address: keys });
        }
        let general = header[KIND] == GENERAL;
        let (size, key) = if general { (3 * WORD, WORD) } else { (2 * WORD, 0) };
        let mut bytes = vec![0; count * size];
        memory.read(keys.wrapping_add(INDEX + (1usize << header[INDEX_LOG])), &mut bytes)?;
        Ok(bytes.chunks_exact(size).map(|entry| (word(entry, key), word(entry, key + WORD))).collect())
    }

    /// All keys and values of a dict.
    pub fn dict(&self, memory: &dyn Memory, dict: usize) -> Result<Vec<(usize, usize)>, Fault> {
        let mut header = [0; 2 * WORD];
        memory.read(dict.wrapping_add(KEYS), &mut header)?;
        let mut entries = self.entries(memory, word(&header, 0))?;
        if let values @ 1.. = word(&header, WORD) {
            let first = if self.at.attributes == Attributes::Inline { WORD } else { 0 };
            self.set_values(memory, values.wrapping_add(first), &mut entries)?;
        }
        entries.retain(|&(key, value)| key != 0 && value != 0);
        Ok(entries)
    }

    fn set_values(
        &self,
        memory: &dyn Memory,
        values: usize,
        entries: &mut [(usize, usize)],
    ) -> Result<(), Fault> {
        let mut bytes = vec![0; entries.len() * WORD];
        memory.read(values, &mut bytes)?;
        entries.iter_mut().enumerate().for_each(|(n, entry)| entry.1 = word(&bytes, n * WORD));
        Ok(())
    }

    /// The value of a name among entries.
    pub fn find(&self, memory: &dyn Memory, entries: &[(usize, usize)], name: &str) -> Option<usize> {
        let ascii = self.layout.text.ascii;
        let keys: Vec<usize> = entries.iter().map(|&(key, _)| key).collect();
        let mut bytes = Vec::new();
        read_each(memory, &keys, LENGTH + WORD, &mut bytes);
        let same = |n: usize, key: usize| {
            let mut text = vec![0; name.len()];
            word(&bytes, n * (LENGTH + WORD) + LENGTH) == name.len()
                && memory.read(key.wrapping_add(ascii), &mut text).is_ok()
                && text == name.as_bytes()
        };
        entries.iter().enumerate().find(|&(n, &(key, _))| same(n, key)).map(|(_, &(_, value))| value)
    }

    /// An attribute of an instance of a class in Python.
    pub fn attribute(&self, memory: &dyn Memory, object: usize, name: &str) -> Result<Option<usize>, Fault> {
        let mut header = [0; 2 * WORD];
        memory.read(object.wrapping_sub(4 * WORD), &mut header)?;
        let (first, second) = (word(&header, 0), word(&header, WORD));
        let kind = memory.word(object.wrapping_add(TYPE))?;
        let types = self.layout.types;
        let (values, dict) = match self.at.attributes {
            Attributes::Pointers => (first, second),
            Attributes::Tagged if second & 1 == 1 => (second.wrapping_add(1), 0),
            Attributes::Tagged => (0, second),
            Attributes::Inline if second != 0 => (0, second),
            Attributes::Inline => {
                let size = memory.word(kind.wrapping_add(types.basicsize))?;
                (object.wrapping_add(size + WORD), 0)
            }
        };
        let entries = match values {
            0 if dict == 0 => return Ok(None),
            0 => self.dict(memory, dict)?,
            values => {
                let keys = memory.word(kind.wrapping_add(types.cached_keys))?;
                let mut entries = self.entries(memory, keys)?;
                self.set_values(memory, values, &mut entries)?;
                entries
            }
        };
        Ok(self.find(memory, &entries, name).filter(|&value| value != 0))
    }

    /// The members of a set.
    pub fn set(&self, memory: &dyn Memory, set: usize) -> Result<Vec<usize>, Fault> {
        let mut header = [0; SET_MASK + 2 * WORD];
        memory.read(set, &mut header)?;
        let used = word(&header, SET_USED);
        let slots = word(&header, SET_MASK).saturating_add(1);
        if used == 0 {
            return Ok(Vec::new());
        }
        if slots > MAX_TABLE / SLOT {
            return Err(Fault { address: set });
        }
        let mut table = vec![0; slots * SLOT];
        memory.read(word(&header, SET_MASK + WORD), &mut table)?;
        // The hash of what was removed is -1.
        let slots = table.chunks_exact(SLOT).map(|slot| (word(slot, 0), word(slot, WORD)));
        let members: Vec<usize> =
            slots.filter(|&(key, hash)| key != 0 && hash != usize::MAX).map(|(key, _)| key).collect();
        if members.len() == used {
            Ok(members)
        } else {
            Err(Fault { address: set })
        }
    }

    pub fn text(&self, memory: &dyn Memory, object: usize) -> Result<String, Fault> {
        Ok(pyunicode::read(&self.layout.text, memory, object, &[])?.text)
    }
}
