//! Decoding of Python's str objects in another process.

use crate::cpython::cpython_layout::{Text, STATE_FROM_LENGTH};
use crate::linux::memory::{int, word, Fault, Memory};

/// Longer texts are cut.
const MAX_CHARACTERS: usize = 4095;
/// What ends a text that was cut.
const ELLIPSIS: char = '…';
/// As much of an object as is read at first: most names and paths fit.
pub const FIRST_BYTES: usize = 160;

/// A text, and whether it is exact: some objects cannot be written as UTF-8, some are too long.
#[derive(Debug, PartialEq, Eq)]
pub struct PyString {
    pub text: String,
    pub exact: bool,
}

/// The text of the object at an address, of which the first bytes were read (FIRST_BYTES of them, or none).
pub fn read(layout: &Text, memory: &dyn Memory, address: usize, first: &[u8]) -> Result<PyString, Fault> {
    let mut header = [0; FIRST_BYTES];
    let head = match first.len() >= layout.compact + size_of::<usize>() {
        true => first,
        false => {
            // Less than that of a short ASCII text would be another object's, or nobody's.
            memory.read(address, &mut header[..layout.ascii])?;
            let has_all = Header::parse(layout, &header[layout.length..])
                .is_some_and(|shape| shape.compact && shape.ascii);
            let rest = if has_all { 0 } else { layout.compact + size_of::<usize>() };
            if rest > 0 {
                memory.read(address, &mut header[..rest])?;
            }
            &header[..rest.max(layout.ascii)]
        }
    };
    let shape = Header::parse(layout, &head[layout.length..]).ok_or(Fault { address })?;
    let mut read = Vec::new();
    let characters = match shape.compact {
        true if shape.start + shape.size() <= head.len() => &head[shape.start..][..shape.size()],
        _ => {
            let start =
                if shape.compact { address.wrapping_add(shape.start) } else { word(head, layout.compact) };
            read.resize(shape.size(), 0);
            memory.read(start, &mut read)?;
            &read
        }
    };
    Ok(shape.decode(characters))
}

/// The same object as it lies in memory, from its length to the end of its characters.
pub fn read_raw(layout: &Text, memory: &dyn Memory, address: usize) -> Result<Vec<u8>, Fault> {
    let mut header = [0; STATE_FROM_LENGTH + size_of::<u32>()];
    let begin = address.wrapping_add(layout.length);
    memory.read(begin, &mut header)?;
    let shape = Header::parse(layout, &header).ok_or(Fault { address })?;
    let mut bytes = vec![0; shape.start - layout.length + if shape.compact { shape.size() } else { 0 }];
    memory.read(begin, &mut bytes)?;
    Ok(bytes)
}

/// The text of an object that `read_raw` returned. Characters that are not part of the object are read again.
pub fn decode_raw(layout: &Text, memory: &dyn Memory, address: usize, raw: &[u8]) -> Result<PyString, Fault> {
    let shape = Header::parse(layout, raw).ok_or(Fault { address })?;
    if !shape.compact {
        return read(layout, memory, address, &[]);
    }
    let characters =
        raw.get(shape.start - layout.length..).and_then(|characters| characters.get(..shape.size()));
    characters.map(|characters| shape.decode(characters)).ok_or(Fault { address })
}

/// The header of an object, which describes its characters.
struct Header {
    length: usize,
    /// Bytes of a character.
    width: usize,
    compact: bool,
    ascii: bool,
    /// Where the characters begin, if they are part of the object.
    start: usize,
}

impl Header {
    /// Of an object's bytes from its length on; None if it is no text.
    fn parse(layout: &Text, bytes: &[u8]) -> Option<Header> {
        // Bit fields: 2 bits for interned, 3 for the bytes of a character, then whether compact and whether ASCII.
        let state = int(bytes, STATE_FROM_LENGTH);
        let (width, compact, ascii) = ((state >> 2 & 7) as usize, state >> 5 & 1 == 1, state >> 6 & 1 == 1);
        let start = if ascii { layout.ascii } else { layout.compact };
        matches!(width, 1 | 2 | 4).then(|| Header { length: word(bytes, 0), width, compact, ascii, start })
    }

    /// Of its characters, as far as they are read.
    fn size(&self) -> usize {
        self.length.min(MAX_CHARACTERS) * self.width
    }

    fn decode(&self, characters: &[u8]) -> PyString {
        let mut copied = decode(characters, self.width, self.ascii);
        if self.length > MAX_CHARACTERS {
            copied.text.push(ELLIPSIS);
            copied.exact = false;
        }
        copied
    }
}

fn decode(characters: &[u8], width: usize, ascii: bool) -> PyString {
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u32, |number, &byte| number << 8 | u32::from(byte));
    if width == 1 {
        let exact = !ascii || characters.is_ascii();
        return PyString { text: characters.iter().map(|&byte| char::from(byte)).collect(), exact };
    }
    let mut exact = true;
    let character = |bytes| {
        char::from_u32(number(bytes)).unwrap_or_else(|| {
            exact = false;
            char::REPLACEMENT_CHARACTER
        })
    };
    let text = characters.chunks_exact(width).map(character).collect();
    PyString { text, exact }
}
