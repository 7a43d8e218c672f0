//! Code whose frames CPython itself puts between calls: from Python 3.12 on, and not part of a program.

/// The file name of most of it.
const SHIM: &str = "<shim>";
/// The frame below `__init__` has no file name in Python 3.12, and its own name there in 3.13.
const INIT: &str = "__init__";
/// Its code units. A function of a program that has no more of them calls nothing.
const MAX_UNITS: usize = 4;

/// Whether code of this file, function name and length in code units is CPython's own.
pub fn is_shim(file: &str, function: &str, units: usize) -> bool {
    file == SHIM || (matches!(file, "" | INIT) && function == INIT && units <= MAX_UNITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_without_a_file_name_is_a_programs_own_unless_cpython_made_it() {
        assert!([SHIM, "", INIT].iter().all(|file| is_shim(file, INIT, 4)));
        assert!(!is_shim("", "<module>", 4) && !is_shim("", INIT, 5) && !is_shim("a.py", INIT, 2));
    }
}
