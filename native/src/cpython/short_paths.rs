//! Short names of source files: from the outermost package on, as the py-spy crate shows them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Paths kept at the most.
const MAX_KEPT: usize = 16_384;

/// Shortens the paths of one process, each once.
#[derive(Debug)]
pub struct Paths {
    /// Where the process's files are found: its root, if it has another one than this process.
    root: Option<String>,
    short: HashMap<String, Arc<str>>,
}

impl Paths {
    pub fn of(pid: i32) -> Paths {
        let mounts = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        let (here, there) = (mounts("self"), mounts(&pid.to_string()));
        let elsewhere = here.is_some() && there.is_some() && here != there;
        Paths { root: elsewhere.then(|| format!("/proc/{pid}/root")), short: HashMap::new() }
    }

    pub fn short(&mut self, path: &str) -> Arc<str> {
        if let Some(short) = self.short.get(path) {
            return Arc::clone(short);
        }
        if self.short.len() >= MAX_KEPT {
            self.short.clear();
        }
        let seen = self.root.as_ref().map(|root| format!("{root}{path}"));
        let seen = seen.filter(|seen| Path::new(seen).exists());
        let short: Arc<str> = shorten(Path::new(seen.as_deref().unwrap_or(path))).into();
        self.short.insert(path.to_owned(), Arc::clone(&short));
        short
    }
}

/// What is left without the folders above the outermost package.
fn shorten(path: &Path) -> String {
    let mut above = path;
    while let Some(parent) = above.parent() {
        above = parent;
        if !parent.join("__init__.py").exists() {
            break;
        }
    }
    path.strip_prefix(above).unwrap_or(path).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_begins_with_its_outermost_package() {
        let folder = std::env::temp_dir().join(format!("sidelight-paths-{}", std::process::id()));
        let inner = folder.join("outer/inner");
        std::fs::create_dir_all(&inner).unwrap();
        for package in [folder.join("outer"), inner.clone()] {
            std::fs::write(package.join("__init__.py"), "").unwrap();
        }
        let mut paths = Paths::of(std::process::id() as i32);
        let short = |paths: &mut Paths, path: &Path| paths.short(path.to_str().unwrap());
        assert_eq!(&*short(&mut paths, &inner.join("module.py")), "outer/inner/module.py");
        assert_eq!(&*short(&mut paths, &folder.join("script.py")), "script.py");
        std::fs::remove_dir_all(folder).unwrap();
        assert_eq!(&*short(&mut paths, &inner.join("module.py")), "outer/inner/module.py");
        assert_eq!(&*short(&mut paths, Path::new("<string>")), "<string>");
        assert_eq!(&*short(&mut paths, Path::new("")), "");
    }
}
