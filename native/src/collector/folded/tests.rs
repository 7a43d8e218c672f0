use super::*;

const WIDE: FoldLimits = FoldLimits { stacks: 100, depth: 100 };
const BESIDE: OtherLines<'_> = OtherLines::Comments("say> ");

fn read(text: &[u8], limits: FoldLimits) -> Result<Vec<(String, [i64; STATE_COUNT])>, usize> {
    let folded = fold(text, 0, BESIDE, limits).map_err(|refused| refused.0)?;
    let mut stacks: Vec<_> =
        folded.stacks.into_iter().map(|one| (one.text.into_owned(), one.counts)).collect();
    stacks.sort();
    Ok(stacks)
}

fn expect(stacks: &[(&str, [i64; STATE_COUNT])]) -> Result<Vec<(String, [i64; STATE_COUNT])>, usize> {
    Ok(stacks.iter().map(|&(text, counts)| (text.to_owned(), counts)).collect())
}

#[test]
fn equal_stacks_are_added_up_by_state() {
    let text =
        b"a;b 1\na;b;[idle] 2\n\na;b;[gil] 3\r\n\r\na;b;[cpu_wait] 4\na;b;[gil_wait] 5\na;b;[lock] 6\na;b;[poll] 7\na;b;[io] 8\na;b;[sleep] 9\na;b 10\nsay> a 1\nf (x y) 7\nnever 0";
    assert_eq!(
        read(text, WIDE),
        expect(&[
            ("a;b", [2, 11, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0]),
            ("f (x y)", [0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        ])
    );
    assert_eq!(read(b"", WIDE), expect(&[]));
}

#[test]
fn what_is_not_a_stack_and_a_count_is_refused_by_its_line() {
    for line in [
        "a",
        " 1",
        "a ",
        "a -1",
        "a 1.5",
        "a \u{661}",
        "a 1000000000000000",
        ";a 1",
        "a; 1",
        "a;;b 1",
        "[idle] 1",
        "[gil] 1",
        "[cpu_wait] 1",
        "[sleep] 1",
        ";[idle] 1",
        "a;;[idle] 1",
        "[idle];[gil] 1",
    ] {
        assert_eq!(read(format!("ok 1\n\n{line}\nok 1").as_bytes(), WIDE), Err(2), "{line:?}");
    }
    assert_eq!(read(b"ok 1\nok \xff 1\nok", WIDE), Err(1));
    assert_eq!(read(b"ok 1\nsay> \xff", WIDE), Err(1));
    assert_eq!(
        read(b"a 999999999999999", WIDE),
        expect(&[("a", [0, 999_999_999_999_999, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])])
    );
}

#[test]
fn as_many_stacks_as_the_limit_are_read_and_one_more_is_refused() {
    let two = FoldLimits { stacks: 2, ..WIDE };
    assert_eq!(
        read(b"a 1\nb 1\na 1\nb;[idle] 1", two),
        expect(&[("a", [0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), ("b", [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])])
    );
    assert_eq!(read(b"a 1\nb 1\na 1\nc 0", two), Err(3));
}

#[test]
fn stacks_deeper_than_the_limit_lose_their_middle() {
    let three = FoldLimits { depth: 3, ..WIDE };
    let text = b"a;b;c 1\na;b;c;d 2\na;x;y;d;[gil] 4\na;(truncated);d 8";
    assert_eq!(
        read(text, three),
        expect(&[
            ("a;(truncated);d", [0, 10, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            ("a;b;c", [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        ])
    );
    let folded = fold(text, 0, BESIDE, three).unwrap();
    assert_eq!((folded.samples, folded.clipped), (15, 14));
    assert_eq!(read(b"a;b;c;;d 1", three), Err(0));
    let one = FoldLimits { depth: 1, ..WIDE };
    assert_eq!(
        read(b"a;b 1\nc 1", one),
        expect(&[
            ("(truncated)", [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            ("c", [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        ])
    );
    let text = format!("{}leaf 1", "f;".repeat(20_000));
    assert_eq!(
        read(text.as_bytes(), FoldLimits { depth: 2, ..WIDE }),
        expect(&[("f;(truncated)", [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])])
    );
}

#[test]
fn a_frame_is_clipped_only_if_it_says_so_in_full() {
    for (text, clipped) in
        [("(truncated)", 5), ("a;(truncated);b", 5), ("a(truncated)", 0), ("(truncated)b;a", 0)]
    {
        assert_eq!(fold(format!("{text} 5").as_bytes(), 0, BESIDE, WIDE).unwrap().clipped, clipped, "{text}");
    }
}

#[test]
fn more_samples_than_fit_are_all_in_the_total() {
    let line = "a 999999999999999\n".repeat(20_000);
    let folded = fold(line.as_bytes(), 0, BESIDE, WIDE).unwrap();
    assert_eq!(folded.samples, 20_000 * 999_999_999_999_999);
    assert_eq!(folded.stacks[0].counts, [0, i64::MAX, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_window_ends_at_the_next_header() {
    let body = b"# {}\na 1\n#b\n# {}\n\nc 1\n";
    let part = |start| {
        let folded = fold(body, start, OtherLines::NextHeader, WIDE).unwrap();
        (folded.stacks.len(), folded.lines, folded.next)
    };
    assert_eq!(part(5), (1, 1, Some(9)));
    assert_eq!(part(12), (0, 0, Some(12)));
    assert_eq!(part(17), (1, 3, None));
    assert_eq!(part(body.len()).0, 0);
    assert_eq!(part(body.len() + 1).0, 0);
}

#[test]
fn a_stack_is_named_by_xxh3_and_rows_come_in_its_order() {
    let folded = fold(b"main;f 1\nmain 1\nz 1", 0, BESIDE, WIDE).unwrap();
    let hashes: Vec<u64> = folded.stacks.iter().map(|one| one.hash).collect();
    assert!(hashes.is_sorted());
    // As `xxh3_64_intdigest(b"main;f")` of the reference library.
    assert!(folded.stacks.iter().any(|one| one.text == "main;f" && one.hash == MAIN_F));
}

const MAIN_F: u64 = 11854697437498356640;

#[test]
fn stacks_with_one_hash_stay_two() {
    let mut table = Table::new(|_| 7);
    for line in ["b 1", "a 2", "c 4", "a 8", "b 16", "c 32"] {
        table.add(line, WIDE).unwrap();
    }
    assert!(table.add("a; 1", WIDE).is_none());
    let found: Vec<_> =
        table.finish(0, None).stacks.into_iter().map(|one| (one.text, one.counts[1])).collect();
    assert_eq!(found, [("a".into(), 10), ("b".into(), 17), ("c".into(), 36)]);
}
