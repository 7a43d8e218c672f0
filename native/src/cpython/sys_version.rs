//! The version of a Python before 3.11, as its module `sys` has it.
//!
//! `Py_Version` does not exist there. The dict of `sys` is searched for `hexversion`, an int of the same format.
//! Offsets are those of PyDictObject (Include/cpython/dictobject.h), of its keys (Objects/dict-common.h) and of
//! PyLongObject (Include/longintrepr.h): the same in 3.7 to 3.10.

use crate::cpython::cpython_layout::{Layout, SIZE};
use crate::cpython::pyunicode;
use crate::linux::memory::{int, word, Fault, Memory};

const NAME: &str = "hexversion";
/// Of a dict: its keys.
const KEYS: usize = 32;
/// Of the keys: the size of the index, the number of entries, and the index. The entries come next.
const INDEX_SIZE: usize = 8;
const COUNT: usize = 32;
const INDEX: usize = 40;
/// Hash, key and value.
const ENTRY: usize = 24;
const ENTRY_KEY: usize = 8;
const ENTRY_VALUE: usize = 16;
/// Of an int: its first digit.
const DIGIT: usize = 24;
/// `sys` has some 90 names.
const MAX_ENTRIES: usize = 4096;

/// Reads `sys.hexversion` of an interpreter; None if it has none, as while it starts.
pub fn read(memory: &dyn Memory, layout: &Layout, interpreter: usize) -> Result<Option<u32>, Fault> {
    let Some(sys_dict) = layout.interpreter.sys_dict else { return Ok(None) };
    let dict = memory.word(interpreter.wrapping_add(sys_dict))?;
    if dict == 0 {
        return Ok(None);
    }
    let keys = memory.word(dict.wrapping_add(KEYS))?;
    let mut header = [0; INDEX];
    memory.read(keys, &mut header)?;
    let (slots, count) = (word(&header, INDEX_SIZE), word(&header, COUNT));
    let slot_bytes = match slots {
        0..=0xFF => 1,
        0x100..=0xFFFF => 2,
        _ => return Ok(None),
    };
    let mut entries = vec![0; count.min(MAX_ENTRIES) * ENTRY];
    memory.read(keys.wrapping_add(INDEX + slots * slot_bytes), &mut entries)?;
    for entry in entries.chunks_exact(ENTRY) {
        let (key, value) = (word(entry, ENTRY_KEY), word(entry, ENTRY_VALUE));
        let name = pyunicode::read(&layout.text, memory, key, &[]);
        if value != 0 && name.is_ok_and(|name| name.exact && name.text == NAME) {
            let mut number = [0; DIGIT + size_of::<u32>()];
            memory.read(value, &mut number)?;
            return Ok((word(&number, SIZE) == 1).then_some(int(&number, DIGIT) as u32));
        }
    }
    Ok(None)
}
