use super::*;

pub(crate) fn unpack(packed: &PackedStacks) -> Vec<String> {
    let text = |frame: i32| {
        let [start, end] = [0, 1].map(|next| packed.text_offsets[frame as usize + next] as usize);
        &packed.texts[start..end]
    };
    let stack = |at: usize| {
        let frames = &packed.frames[packed.offsets[at] as usize..packed.offsets[at + 1] as usize];
        frames.iter().map(|&frame| text(frame)).collect::<Vec<&str>>().join(";")
    };
    (0..packed.offsets.len() - 1).map(stack).collect()
}

#[test]
fn frames_are_numbered_as_they_occur_whatever_the_order_of_packing() {
    let stacks = ["main;b;c", "main;a", "c;main"];
    let expected = PackedStacks {
        offsets: vec![0, 3, 5, 7],
        frames: vec![0, 1, 2, 0, 3, 2, 0],
        text_offsets: vec![0, 4, 5, 6, 7],
        texts: "mainbca".to_string(),
    };
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        assert_eq!(pack(&stacks, order.into_iter()).as_ref(), Ok(&expected));
    }
    assert_eq!(unpack(&expected), stacks);
}

#[test]
fn frames_that_only_begin_alike_are_not_shared() {
    let long = "a function with a name longer than a chunk";
    for (one, other) in [
        ("a;b", "a;bc"),
        ("a;bc", "a;b"),
        ("a", "a;b"),
        ("a;b", "a"),
        ("a;b", "a;b"),
        ("é;ö", "é;õ"),
        ("", "a"),
        (long, &format!("{long};x")),
        (&format!("{long};{long};x"), &format!("{long};{long};y;{long}")),
    ] {
        let packed = pack(&[one, other], 0..2).unwrap_or_default();
        assert_eq!(unpack(&packed), [one, other]);
    }
}

#[test]
fn no_stacks_are_empty_columns_and_an_unknown_stack_is_refused() {
    let packed = pack(&[], 0..0).unwrap_or_default();
    assert_eq!((packed.offsets, packed.text_offsets), (vec![0], vec![0]));
    assert_eq!(pack(&["a"], 0..2), Err(MismatchedColumns));
}
