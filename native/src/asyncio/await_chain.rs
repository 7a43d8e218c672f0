//! Chains of awaits: from the coroutine of a task to what it waits for.
//!
//! All chains are followed together, one link at a time: a link of all tasks is one read.

use crate::asyncio::objects::{read_each, Kind, Objects};
use crate::asyncio::task_layout::{NEXT, STACK_TOP, TAGS};
use crate::cpython::code_objects::CodePosition;
use crate::cpython::cpython_layout::{FrameLayout, INSTRUCTION_BYTES, TYPE};
use crate::linux::memory::{int, word, Fault, Memory};

/// Longer chains are no chains.
const MAX_LINKS: usize = 1000;
/// As much as is read of each object: mostly the top of its stack is in it.
const FIRST_BYTES: usize = 400;
/// As much as every generator has.
const LEAST_BYTES: usize = 160;
/// Larger objects are none.
const MAX_OBJECT: usize = 1 << 20;
const WORD: usize = size_of::<usize>();

/// The end of one chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AwaitChain {
    /// Root first.
    pub positions: Vec<CodePosition>,
    /// The future at its end.
    pub future: Option<usize>,
}

struct Link {
    chain: usize,
    address: usize,
}

/// Follows the chains that begin at these objects.
///
/// # Errors
/// If one of them is no chain: it was read while it changed.
pub fn follow(
    objects: &mut Objects,
    memory: &dyn Memory,
    coroutines: &[usize],
) -> Result<Vec<AwaitChain>, Fault> {
    let FrameLayout::Stack(frame) = objects.layout.frame else { return Err(Fault { address: 0 }) };
    let at = objects.at;
    let mut chains = vec![AwaitChain::default(); coroutines.len()];
    let links = coroutines.iter().enumerate().filter(|(_, &address)| address != 0);
    let mut links: Vec<Link> = links.map(|(chain, &address)| Link { chain, address }).collect();
    let (mut bytes, mut more) = (Vec::new(), Vec::new());
    for _ in 0..MAX_LINKS {
        if links.is_empty() {
            return Ok(chains);
        }
        let addresses: Vec<usize> = links.iter().map(|link| link.address).collect();
        if !read_each(memory, &addresses, FIRST_BYTES, &mut bytes) {
            // An object at the end of what is mapped.
            for (n, &address) in addresses.iter().enumerate() {
                let object = &mut bytes[n * FIRST_BYTES..][..FIRST_BYTES];
                if word(object, TYPE) == 0 {
                    memory.read(address, &mut object[..LEAST_BYTES])?;
                }
            }
        }
        let (mut next, mut suspended) = (Vec::new(), Vec::new());
        for (link, object) in links.iter().zip(bytes.chunks_exact(FIRST_BYTES)) {
            match objects.kind(memory, word(object, TYPE))? {
                Kind::Generator => {
                    let code = word(object, at.frame + frame.code) & !frame.tag;
                    let instruction = word(object, at.frame + frame.instruction);
                    chains[link.chain].positions.push(CodePosition { code, instruction });
                    if object[at.frame_state] as i8 == at.suspended {
                        let locals = at.frame + at.locals;
                        let top = match at.has_stack_references {
                            true => word(object, at.frame + STACK_TOP).checked_sub(link.address),
                            false => usize::try_from(int(object, at.frame + STACK_TOP))
                                .ok()
                                .map(|top| locals + top * WORD),
                        };
                        let top = top.filter(|&top| top >= locals + at.awaited && top < MAX_OBJECT);
                        // Its stack is empty: it may not wait, or was read while it changed.
                        let top = top.map_or(0, |top| top - at.awaited);
                        suspended.push((link.chain, link.address, top, instruction));
                        next.push(match object.get(top..top + WORD) {
                            Some(entry) if top > 0 => word(entry, 0),
                            _ => 0,
                        });
                    }
                }
                Kind::Wrapper => {
                    suspended.push((link.chain, 0, 0, 0));
                    next.push(word(object, NEXT));
                }
                Kind::FutureIterator => chains[link.chain].future = Some(word(object, NEXT)),
                _ => {}
            }
        }
        let mut waits = vec![true; suspended.len()];
        if at.needs_instruction {
            // A wrapper has none.
            let resume = |&(_, object, _, instruction): &(usize, usize, usize, usize)| match object {
                0 => links[0].address,
                _ => instruction.wrapping_add(INSTRUCTION_BYTES),
            };
            let resumes: Vec<usize> = suspended.iter().map(resume).collect();
            read_each(memory, &resumes, INSTRUCTION_BYTES, &mut more);
            for (n, &(_, object, ..)) in suspended.iter().enumerate() {
                // The argument of RESUME: 2 after `yield from`, 3 after `await`.
                waits[n] = object == 0 || more[n * INSTRUCTION_BYTES + 1] >= 2;
            }
        }
        links.clear();
        for ((mut address, (chain, object, top, _)), _) in
            next.into_iter().zip(suspended).zip(waits).filter(|(_, waits)| *waits)
        {
            if address == 0 && object != 0 {
                if top == 0 {
                    return Err(Fault { address: object });
                }
                address = memory.word(object.wrapping_add(top))?;
            }
            if at.has_stack_references && object != 0 {
                address &= !TAGS;
            }
            if address != 0 {
                links.push(Link { chain, address });
            }
        }
    }
    Err(Fault { address: links.first().map_or(0, |link| link.address) })
}
