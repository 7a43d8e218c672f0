/** What a frame's text says: `function (file)` or `function (file:line)`. */
export interface FrameParts {
  readonly function: string;
  readonly file: string;
  readonly line: string;
}

export type PackageKind = "package" | "stdlib" | "none";

export interface Package {
  readonly name: string;
  readonly kind: PackageKind;
}

export function frameParts(text: string): FrameParts {
  const open = text.lastIndexOf(" (");
  if (open <= 0 || !text.endsWith(")")) return { function: text, file: "", line: "" };
  const place = text.slice(open + 2, -1);
  const colon = place.lastIndexOf(":");
  const hasLine = colon > 0 && /^\d+$/.test(place.slice(colon + 1));
  return {
    function: text.slice(0, open),
    file: hasLine ? place.slice(0, colon) : place,
    line: hasLine ? place.slice(colon + 1) : "",
  };
}

/** A frame's text without its line. */
export function withoutLine(text: string): string {
  if (!text.endsWith(")")) return text;
  const parts = frameParts(text);
  return parts.line === "" ? text : `${parts.function} (${parts.file})`;
}

/** The top-level package a frame's file lies in; a file with no folder is a package of its own. */
export function packageOf(text: string): Package {
  const { file } = frameParts(text);
  if (file === "") return { name: "", kind: "none" };
  const top = file.replace(/^[/<]+/, "").split("/", 1)[0].replace(/\.(py|pyx|so)$|>$/, "");
  return { name: top, kind: STDLIB.has(top) || file.startsWith("<frozen") ? "stdlib" : "package" };
}

/** The file or package a frame counts under; a frame without a file counts under its own name. */
export const ownerOf = (text: string, by: "file" | "package"): string =>
  (by === "file" ? frameParts(text).file : packageOf(text).name) || withoutLine(text);

// The public names of Python 3.11's sys.stdlib_module_names.
const STDLIB = new Set((
  "_weakrefset abc aifc antigravity argparse array ast asynchat asyncio asyncore atexit audioop base64 " +
  "bdb binascii bisect builtins bz2 cProfile calendar cgi cgitb chunk cmath cmd code codecs codeop " +
  "collections colorsys compileall concurrent configparser contextlib contextvars copy copyreg crypt " +
  "csv ctypes curses dataclasses datetime dbm decimal difflib dis distutils doctest email encodings " +
  "ensurepip enum errno faulthandler fcntl filecmp fileinput fnmatch fractions ftplib functools gc " +
  "genericpath getopt getpass gettext glob graphlib grp gzip hashlib heapq hmac html http idlelib " +
  "imaplib imghdr imp importlib inspect io ipaddress itertools json keyword lib2to3 linecache locale " +
  "logging lzma mailbox mailcap marshal math mimetypes mmap modulefinder msilib msvcrt multiprocessing " +
  "netrc nis nntplib nt ntpath nturl2path numbers opcode operator optparse os ossaudiodev pathlib pdb " +
  "pickle pickletools pipes pkgutil platform plistlib poplib posix posixpath pprint profile pstats pty " +
  "pwd py_compile pyclbr pydoc pydoc_data pyexpat queue quopri random re readline reprlib resource " +
  "rlcompleter runpy sched secrets select selectors shelve shlex shutil signal site smtpd smtplib " +
  "sndhdr socket socketserver spwd sqlite3 sre_compile sre_constants sre_parse ssl stat statistics " +
  "string stringprep struct subprocess sunau symtable sys sysconfig syslog tabnanny tarfile telnetlib " +
  "tempfile termios textwrap this threading time timeit tkinter token tokenize tomllib trace traceback " +
  "tracemalloc tty turtle turtledemo types typing unicodedata unittest urllib uu uuid venv warnings " +
  "wave weakref webbrowser winreg winsound wsgiref xdrlib xml xmlrpc zipapp zipfile zipimport zlib " +
  "zoneinfo " +
  "tomllib"
).split(" "));
