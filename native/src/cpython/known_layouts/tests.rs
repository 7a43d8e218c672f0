//! The offsets compared with the headers of installed Pythons, where there are any: pyenv's.

use super::*;
use std::path::{Path, PathBuf};
use std::process::Command;

const VERSIONS: [(&str, Layout); 4] =
    [("3.7", PYTHON_3_7), ("3.8", PYTHON_3_8), ("3.9", PYTHON_3_9), ("3.10", PYTHON_3_10)];

/// The folder with the headers of a version.
fn headers(version: &str) -> Option<PathBuf> {
    let home = PathBuf::from(std::env::var("HOME").ok()?);
    let pyenv = std::env::var("PYENV_ROOT").map_or(home.join(".pyenv"), PathBuf::from);
    let installed = std::fs::read_dir(pyenv.join("versions")).ok()?;
    let mut paths = installed.flatten().map(|entry| entry.path());
    let prefix = format!("{version}.");
    let root =
        paths.find(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&prefix)))?;
    let names = [format!("python{version}"), format!("python{version}m")];
    names.into_iter().map(|name| root.join("include").join(name)).find(|path| path.join("Python.h").exists())
}

fn offsets_of_headers(version: &str, headers: &Path) -> Vec<usize> {
    let program = std::env::temp_dir().join(format!("sidelight-offsets-{version}-{}", std::process::id()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cpython/known_layouts/offsets.c");
    let compiled =
        Command::new("cc").arg("-w").arg("-I").arg(headers).arg("-o").arg(&program).arg(source).status();
    assert!(compiled.unwrap().success());
    let output = Command::new(&program).output().unwrap();
    std::fs::remove_file(&program).unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

fn offsets_of_layout(layout: &Layout, mutex_shift: usize) -> Vec<usize> {
    let GilLayout::Runtime { holder, main, switches } = layout.gil else { panic!("it has one GIL") };
    let FrameLayout::Objects(frame) = layout.frame else { panic!("its frames are objects") };
    let CurrentFrame::Frame(current) = layout.thread.current else { panic!("it has no _PyCFrame") };
    let (interpreter, thread, code) = (layout.interpreter, layout.thread, layout.code);
    let mut offsets =
        vec![layout.interpreters, holder + mutex_shift, main + mutex_shift, switches, mutex_shift];
    offsets.extend([
        interpreter.next,
        interpreter.threads,
        interpreter.modules,
        interpreter.sys_dict.unwrap(),
    ]);
    offsets.extend([thread.next, thread.interpreter, current, thread.thread_id, thread.identity()]);
    offsets.extend([frame.previous, frame.code, frame.instruction]);
    offsets.extend([code.firstlineno, code.bytecode.unwrap(), code.filename, code.name, code.linetable]);
    offsets.extend([layout.text.ascii, layout.text.compact, layout.types.name]);
    offsets.extend(interpreter.runtime);
    offsets
}

#[test]
fn offsets_are_those_of_the_headers() {
    for (version, layout) in VERSIONS {
        let Some(headers) = headers(version) else { continue };
        let expected = offsets_of_headers(version, &headers);
        assert_eq!(offsets_of_layout(&layout, expected[4]), expected, "{version}");
    }
}

#[test]
fn what_is_read_of_an_object_has_all_its_fields() {
    for (version, layout) in VERSIONS {
        let FrameLayout::Objects(frame) = layout.frame else { panic!("its frames are objects") };
        assert_eq!(frame.size, frame.instruction + size_of::<i32>(), "{version}");
        assert!(layout.thread.size >= layout.thread.identity() + size_of::<u64>(), "{version}");
        assert!(layout.code.firstlineno < layout.code.linetable, "{version}");
    }
}
