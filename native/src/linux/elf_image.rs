//! Dynamic symbols of an ELF image, looked up in the memory of the process that has mapped it.
//!
//! No file is opened: a file may have been replaced, by one of any size or by one that nobody ever writes to. The
//! lookup goes through the hash table as the dynamic linker's does (gABI, "Dynamic Linking"; GNU hash: glibc
//! elf/dl-lookup.c), so it takes a few small reads whatever the process has put there.

use crate::linux::memory::{word, Fault, Memory};

const WORD: usize = size_of::<usize>();
const HEADER_BYTES: usize = 64;
const PROGRAM_HEADER_BYTES: usize = 56;
const MAX_PROGRAM_HEADERS: usize = 64;
const MAX_DYNAMIC_ENTRIES: usize = 256;
const SYMBOL_BYTES: usize = 24;
/// Longer chains of a hash table are not followed.
const MAX_CHAIN: usize = 1024;
const MAX_NAME: usize = 64;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_HASH: usize = 4;
const DT_STRTAB: usize = 5;
const DT_SYMTAB: usize = 6;
const DT_GNU_HASH: usize = 0x6fff_fef5;

/// An image whose first page is mapped at a known address. 64-bit, of this machine's byte order.
pub struct ElfImage<'a> {
    memory: &'a dyn Memory,
    /// What is added to the addresses in the image.
    bias: usize,
    symbols: usize,
    names: usize,
    gnu_hash: Option<usize>,
    hash: Option<usize>,
}

/// The program headers of the image that begins at `start`; None if it is none.
fn read_program_headers(memory: &dyn Memory, start: usize) -> Result<Option<Vec<u8>>, Fault> {
    let mut header = [0; HEADER_BYTES];
    memory.read(start, &mut header)?;
    let byte_order = if cfg!(target_endian = "little") { 1 } else { 2 };
    if header[..4] != *b"\x7fELF" || header[4] != 2 || header[5] != byte_order {
        return Ok(None);
    }
    let (entry_bytes, count) = (usize::from(half(&header, 0x36)), usize::from(half(&header, 0x38)));
    if entry_bytes != PROGRAM_HEADER_BYTES || count > MAX_PROGRAM_HEADERS {
        return Ok(None);
    }
    let mut table = vec![0; count * PROGRAM_HEADER_BYTES];
    memory.read(start.wrapping_add(word(&header, 0x20)), &mut table)?;
    Ok(Some(table))
}

impl ElfImage<'_> {
    /// The image that begins at `start`; None if it is none or has no dynamic symbols.
    pub fn read(memory: &dyn Memory, start: usize) -> Result<Option<ElfImage<'_>>, Fault> {
        let Some(table) = read_program_headers(memory, start)? else { return Ok(None) };
        let (mut bias, mut dynamic) = (None, None);
        for entry in table.chunks_exact(PROGRAM_HEADER_BYTES) {
            let [offset, address, size] = [8, 16, 40].map(|at| word(entry, at));
            match number(entry, 0) {
                // The first page of the file is in it.
                PT_LOAD if bias.is_none() => bias = Some(start.wrapping_sub(address.wrapping_sub(offset))),
                PT_DYNAMIC => dynamic = Some((address, size)),
                _ => {}
            }
        }
        let (Some(bias), Some((dynamic, size))) = (bias, dynamic) else { return Ok(None) };
        let mut image = ElfImage { memory, bias, symbols: 0, names: 0, gnu_hash: None, hash: None };
        let mut entries = vec![0; (size / (2 * WORD)).min(MAX_DYNAMIC_ENTRIES) * 2 * WORD];
        memory.read(dynamic.wrapping_add(bias), &mut entries)?;
        for entry in entries.chunks_exact(2 * WORD) {
            let value = word(entry, WORD);
            // glibc replaces the addresses in this table by those in memory, other C libraries do not.
            let address = if value < start { value.wrapping_add(bias) } else { value };
            match word(entry, 0) {
                0 => break,
                DT_HASH => image.hash = Some(address),
                DT_GNU_HASH => image.gnu_hash = Some(address),
                DT_STRTAB => image.names = address,
                DT_SYMTAB => image.symbols = address,
                _ => {}
            }
        }
        Ok((image.symbols != 0 && image.names != 0).then_some(image))
    }

    /// The path of the dynamic linker that a program asks for; empty without one.
    pub fn linker_path(memory: &dyn Memory, start: usize) -> Result<Vec<u8>, Fault> {
        let table = read_program_headers(memory, start)?.unwrap_or_default();
        let Some(entry) =
            table.chunks_exact(PROGRAM_HEADER_BYTES).find(|entry| number(entry, 0) == PT_INTERP)
        else {
            return Ok(Vec::new());
        };
        // It is in the first page of the file.
        let mut path = vec![0; word(entry, 32).min(MAX_NAME)];
        memory.read(start.wrapping_add(word(entry, 8)), &mut path)?;
        Ok(path)
    }

    /// The address of a symbol that the image defines.
    pub fn symbol(&self, name: &str) -> Result<Option<usize>, Fault> {
        match (self.gnu_hash, self.hash) {
            (Some(table), _) => self.find_in_gnu_hash(table, name),
            (None, Some(table)) => self.find_in_hash(table, name),
            (None, None) => Ok(None),
        }
    }

    fn find_in_gnu_hash(&self, table: usize, name: &str) -> Result<Option<usize>, Fault> {
        let mut header = [0; 16];
        self.memory.read(table, &mut header)?;
        let [buckets, first, bloom_words] = [0, 4, 8].map(|at| number(&header, at));
        if buckets == 0 {
            return Ok(None);
        }
        let hash = name.bytes().fold(5381u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(byte.into()));
        let bucket_table = table.wrapping_add(header.len()).wrapping_add(bloom_words as usize * WORD);
        let chain_table = bucket_table.wrapping_add(buckets as usize * 4);
        let mut index = self.number_at(bucket_table, hash % buckets)?;
        if index < first {
            return Ok(None);
        }
        for _ in 0..MAX_CHAIN {
            let entry = self.number_at(chain_table, index - first)?;
            if entry | 1 == hash | 1 {
                if let Some(address) = self.defined_symbol(index, name)? {
                    return Ok(Some(address));
                }
            }
            if entry & 1 == 1 {
                break;
            }
            index = index.saturating_add(1);
        }
        Ok(None)
    }

    fn find_in_hash(&self, table: usize, name: &str) -> Result<Option<usize>, Fault> {
        let buckets = self.number_at(table, 0)?;
        if buckets == 0 {
            return Ok(None);
        }
        let hash = name.bytes().fold(0u32, |hash, byte| {
            let shifted = (hash << 4).wrapping_add(byte.into());
            let high = shifted & 0xf000_0000;
            (shifted ^ high >> 24) & !high
        });
        let bucket_table = table.wrapping_add(8);
        let chain_table = bucket_table.wrapping_add(buckets as usize * 4);
        let mut index = self.number_at(bucket_table, hash % buckets)?;
        for _ in 0..MAX_CHAIN {
            if index == 0 {
                break;
            }
            if let Some(address) = self.defined_symbol(index, name)? {
                return Ok(Some(address));
            }
            index = self.number_at(chain_table, index)?;
        }
        Ok(None)
    }

    /// The address of a symbol, if it has this name and is defined here.
    fn defined_symbol(&self, index: u32, name: &str) -> Result<Option<usize>, Fault> {
        let mut symbol = [0; SYMBOL_BYTES];
        self.memory.read(self.symbols.wrapping_add(index as usize * SYMBOL_BYTES), &mut symbol)?;
        let mut bytes = [0; MAX_NAME];
        let Some(found) = bytes.get_mut(..=name.len()) else { return Ok(None) };
        self.memory.read(self.names.wrapping_add(number(&symbol, 0) as usize), found)?;
        let (section, value) = (half(&symbol, 6), word(&symbol, 8));
        let same = found.split_last() == Some((&0, name.as_bytes()));
        Ok((same && section != 0 && value != 0).then(|| value.wrapping_add(self.bias)))
    }

    fn number_at(&self, table: usize, index: u32) -> Result<u32, Fault> {
        let mut bytes = [0; 4];
        self.memory.read(table.wrapping_add(index as usize * 4), &mut bytes)?;
        Ok(u32::from_ne_bytes(bytes))
    }
}

fn half(bytes: &[u8], offset: usize) -> u16 {
    u16::from_ne_bytes([bytes[offset], bytes[offset + 1]])
}

fn number(bytes: &[u8], offset: usize) -> u32 {
    u32::from_ne_bytes([bytes[offset], bytes[offset + 1], bytes[offset + 2], bytes[offset + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::memory::{MemoryImage, RemoteMemory};

    /// Where this process has mapped the beginning of a library.
    fn start_of(library: &str) -> usize {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.contains(library) && line.contains(" 00000000 ")).unwrap();
        usize::from_str_radix(line.split_once('-').unwrap().0, 16).unwrap()
    }

    #[test]
    fn symbols_of_a_mapped_library_have_the_addresses_that_the_linker_gives() {
        let memory = RemoteMemory::new(std::process::id() as i32);
        let image = ElfImage::read(&memory, start_of("/libc.so.6")).unwrap().unwrap();
        // SAFETY: the name is a C string.
        let expected = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"environ".as_ptr()) };
        assert_eq!(image.symbol("environ"), Ok(Some(expected as usize)));
        assert_eq!(image.symbol("_PyRuntime"), Ok(None));
        assert_eq!(image.symbol(&"x".repeat(100)), Ok(None));
        assert!(ElfImage::read(&memory, image.symbols).unwrap().is_none());
    }

    #[test]
    fn any_bytes_end_the_lookup_soon() {
        let memory = RemoteMemory::new(std::process::id() as i32);
        let start = start_of("/libc.so.6");
        let mut bytes = vec![0; 64 << 10];
        memory.read(start, &mut bytes).unwrap();
        let mut random = fastrand::Rng::with_seed(26);
        for _ in 0..3000 {
            let mut changed = bytes.clone();
            for _ in 0..random.usize(1..200) {
                let end = if random.bool() { 1024 } else { changed.len() };
                let at = random.usize(..end);
                changed[at] = random.u8(..);
            }
            let image = MemoryImage { pieces: [(start, changed)].into() };
            if let Ok(Some(found)) = ElfImage::read(&image, start) {
                let _ = found.symbol("environ");
                let _ = found.find_in_hash(start, "environ");
                let _ = found.find_in_gnu_hash(start + 8, "environ");
            }
        }
    }
}
