//! Short names of source files: the path from the outermost package on, as the py-spy crate shows it.

use crate::linux::target::living_thread;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Maximum of cached paths, and of their bytes.
const MAX_CACHED: usize = 16_384;
const MAX_BYTES: usize = 4 << 20;

/// Shortens the paths of one process, each once.
#[derive(Debug)]
pub struct ShortPaths {
    /// The root of the process's files, if it has another mount namespace than this process.
    root: Option<String>,
    cache: HashMap<String, Arc<str>>,
    cached_bytes: usize,
}

impl ShortPaths {
    pub fn new(pid: i32) -> ShortPaths {
        let pid = living_thread(pid).unwrap_or(pid);
        let mounts = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        let (here, there) = (mounts("self"), mounts(&pid.to_string()));
        let elsewhere = here.is_some() && there.is_some() && here != there;
        ShortPaths {
            root: elsewhere.then(|| format!("/proc/{pid}/root")),
            cache: HashMap::new(),
            cached_bytes: 0,
        }
    }

    pub fn shorten(&mut self, path: &str) -> Arc<str> {
        if let Some(short) = self.cache.get(path) {
            return Arc::clone(short);
        }
        if self.cache.len() >= MAX_CACHED || self.cached_bytes > MAX_BYTES {
            self.cache = HashMap::new();
            self.cached_bytes = 0;
        }
        let visible_path = self.root.as_ref().map(|root| format!("{root}{path}"));
        let visible_path = visible_path.filter(|visible_path| Path::new(visible_path).exists());
        let short: Arc<str> = strip_above_package(Path::new(visible_path.as_deref().unwrap_or(path))).into();
        self.cached_bytes += path.len() + short.len();
        self.cache.insert(path.to_owned(), Arc::clone(&short));
        short
    }
}

/// What is left without the folders above the outermost package.
fn strip_above_package(path: &Path) -> String {
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
        let mut paths = ShortPaths::new(std::process::id() as i32);
        let short = |paths: &mut ShortPaths, path: &Path| paths.shorten(path.to_str().unwrap());
        assert_eq!(&*short(&mut paths, &inner.join("module.py")), "outer/inner/module.py");
        assert_eq!(&*short(&mut paths, &folder.join("script.py")), "script.py");
        std::fs::remove_dir_all(folder).unwrap();
        assert_eq!(&*short(&mut paths, &inner.join("module.py")), "outer/inner/module.py");
        assert_eq!(&*short(&mut paths, Path::new("<string>")), "<string>");
        assert_eq!(&*short(&mut paths, Path::new("")), "");
    }
}
