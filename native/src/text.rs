//! Python's str objects, read out of another process.

use crate::layout::{Text, LENGTH, STATE};
use crate::memory::{int, word, Fault, Memory};

/// Longer texts are cut.
const MAX_CHARACTERS: usize = 4095;
/// What ends a text that was cut.
const CUT: char = '…';
/// As much of an object as is read at first: most names and paths fit.
pub const FIRST_BYTES: usize = 160;

/// A text and whether it is the object's, to the letter: some cannot be written as UTF-8, some are too long.
#[derive(Debug, PartialEq, Eq)]
pub struct Copied {
    pub text: String,
    pub exact: bool,
}

/// The text of the object at an address, of which the first bytes were read (FIRST_BYTES of them, or none).
pub fn copy(layout: &Text, memory: &dyn Memory, address: usize, first: &[u8]) -> Result<Copied, Fault> {
    let mut header = [0; FIRST_BYTES];
    let head = match first.len() >= layout.compact + size_of::<usize>() {
        true => first,
        false => {
            // Less than that of a short ASCII text would be another object's, or nobody's.
            memory.read(address, &mut header[..layout.ascii])?;
            let ascii = int(&header, STATE) >> 6 & 1 == 1;
            let rest = if ascii { 0 } else { layout.compact + size_of::<usize>() };
            if rest > 0 {
                memory.read(address, &mut header[..rest])?;
            }
            &header[..rest.max(layout.ascii)]
        }
    };
    let length = word(head, LENGTH);
    // Bit fields: 2 bits for interned, 3 for the bytes of a character, then whether compact and whether ASCII.
    let state = int(head, STATE);
    let (width, compact, ascii) = ((state >> 2 & 7) as usize, state >> 5 & 1 == 1, state >> 6 & 1 == 1);
    if !matches!(width, 1 | 2 | 4) {
        return Err(Fault { address });
    }
    let size = length.min(MAX_CHARACTERS) * width;
    let start = if ascii { layout.ascii } else { layout.compact };
    let mut read = Vec::new();
    let characters = match compact {
        true if start + size <= head.len() => &head[start..start + size],
        _ => {
            let start = if compact { address.wrapping_add(start) } else { word(head, layout.compact) };
            read.resize(size, 0);
            memory.read(start, &mut read)?;
            &read
        }
    };
    let mut copied = decode(characters, width, ascii);
    if length > MAX_CHARACTERS {
        copied.text.push(CUT);
        copied.exact = false;
    }
    Ok(copied)
}

fn decode(characters: &[u8], width: usize, ascii: bool) -> Copied {
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u32, |number, &byte| number << 8 | u32::from(byte));
    if width == 1 {
        let exact = !ascii || characters.is_ascii();
        return Copied { text: characters.iter().map(|&byte| char::from(byte)).collect(), exact };
    }
    let mut exact = true;
    let character = |bytes| {
        char::from_u32(number(bytes)).unwrap_or_else(|| {
            exact = false;
            char::REPLACEMENT_CHARACTER
        })
    };
    let text = characters.chunks_exact(width).map(character).collect();
    Copied { text, exact }
}

/// The same object as it lies in memory, from its length to the end of its characters.
pub fn raw(layout: &Text, memory: &dyn Memory, address: usize) -> Result<Vec<u8>, Fault> {
    let mut header = [0; STATE + size_of::<u32>() - LENGTH];
    memory.read(address.wrapping_add(LENGTH), &mut header)?;
    let state = int(&header, STATE - LENGTH);
    let characters = word(&header, 0).min(MAX_CHARACTERS) * (state >> 2 & 7) as usize;
    let start = if state >> 6 & 1 == 1 { layout.ascii } else { layout.compact };
    let compact = state >> 5 & 1 == 1;
    let mut bytes = vec![0; start - LENGTH + if compact { characters } else { 0 }];
    memory.read(address.wrapping_add(LENGTH), &mut bytes)?;
    Ok(bytes)
}
