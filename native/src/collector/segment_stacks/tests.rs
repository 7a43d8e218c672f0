use super::*;
use crate::collector::columns::Texts;
use crate::collector::packed_stacks::{pack, tests::unpack};

fn window<'a>(service: i32, hashes: &'a [u64], packed: &'a PackedStacks) -> WindowStacks<'a> {
    let words = Texts { offsets: &packed.text_offsets, bytes: packed.texts.as_bytes() };
    let stacks = Lists { offsets: &packed.offsets, codes: &packed.frames, words };
    WindowStacks { service, hashes, stacks }
}

fn packed(stacks: &[&str]) -> PackedStacks {
    pack(stacks, 0..stacks.len()).unwrap_or_default()
}

#[test]
fn stacks_are_sorted_by_hash_and_kept_once_a_service() {
    let stacks = [packed(&["main;a", "main;b;c"]), packed(&["main;a", "main;b"]), packed(&["main;a"])];
    let windows =
        [window(0, &[3, 1], &stacks[0]), window(0, &[3, 2], &stacks[1]), window(1, &[3], &stacks[2])];
    let table = build(&windows).unwrap_or_default();
    assert_eq!((table.services, table.hashes), (vec![0, 0, 0, 1], vec![1, 2, 3, 3]));
    assert_eq!(table.depths, [3, 2, 2, 2]);
    assert_eq!(unpack(&table.stacks), ["main;b;c", "main;b", "main;a", "main;a"]);
    assert_eq!(table.stacks.texts, "mainbca");
}

#[test]
fn of_equal_hashes_the_last_counts() {
    let stacks = [packed(&["a", "b"]), packed(&["c"])];
    let one = build(&[window(0, &[1, 1], &stacks[0])]).unwrap_or_default();
    assert_eq!(unpack(&one.stacks), ["b"]);
    let two = build(&[window(0, &[1, 1], &stacks[0]), window(0, &[1], &stacks[1])]).unwrap_or_default();
    assert_eq!(unpack(&two.stacks), ["c"]);
}

#[test]
fn columns_that_do_not_fit_are_refused() {
    let stacks = packed(&["a;b", "b"]);
    assert_eq!(build(&[window(0, &[1], &stacks)]), Err(MismatchedColumns));
    let fits = window(0, &[1, 2], &stacks).stacks;
    let words = Texts { offsets: &[0, 1, 9], ..fits.words };
    for broken in [
        Lists { codes: &[0, 7, 1], ..fits },
        Lists { codes: &[0, -1, 1], ..fits },
        Lists { codes: &[0, 1], ..fits },
        Lists { words, ..fits },
    ] {
        let window = WindowStacks { service: 0, hashes: &[1, 2], stacks: broken };
        assert_eq!(build(&[window]), Err(MismatchedColumns));
    }
}

#[test]
fn nothing_gives_an_empty_table() {
    let table = build(&[]).unwrap_or_default();
    assert_eq!((table.stacks.offsets, table.stacks.text_offsets), (vec![0], vec![0]));
}
