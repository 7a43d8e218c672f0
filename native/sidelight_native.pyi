"""Samples running Python processes in one thread of its own and counts what it finds."""

from collections.abc import Sequence
from typing import Literal, TypeAlias, final

from typing_extensions import Buffer

PY_SPY_VERSION: str
STATES: list[str]
"""The states of samples in the order of their numbers."""
__version__: str

SampleGroup: TypeAlias = tuple[list[tuple[str, str]], bytes, list[bytes], "PackedStacks", int, int]
"""Labels, and hashes, counts, stacks, samples and clipped samples as `fold` gives them."""
PackedStacks: TypeAlias = tuple[bytes, bytes, bytes, bytes]
"""Offsets, frames, text offsets (32-bit integers) and texts of packed stacks."""

@final
class Engine:
    """One OS thread that samples any number of processes, without ever holding the GIL.

    It ends, and every session with it, by `close`, or when neither it nor any of its sessions is
    referred to any more. No target is made to stand still for longer than `max_stop_us` at a time;
    at most `max_stacks` stacks are told apart in one batch, the others are counted as `(other)`.
    """

    def __new__(cls, *, max_stop_us: int = 2000, max_stacks: int = 50_000) -> Engine: ...
    def attach(
        self,
        pid: int,
        *,
        rate_hz: float,
        mode: Literal["auto", "gil", "blocking", "nonblocking"] = "auto",
        max_depth: int = 1024,
        reader: Literal["auto", "own", "py-spy"] = "auto",
        thread_names: bool = False,
        timed: int = 0,
        timed_names: bool = False,
        tasks_hz: float = 0.0,
        tasks_max: int = 64,
    ) -> Session:
        """Find the interpreter of a process, in the calling thread, and sample it from then on.

        `thread_names`: tell threads apart by the names the program gave them. `timed`: keep this many
        samples one by one, for `timeline`. `timed_names`: there threads bear their names, also where what is
        counted is told apart by "main" and "other". `tasks_hz`: how often to read the asyncio tasks of the
        main interpreter, at most at every tick; 0: never. Tasks of CPython 3.11 to 3.15 can be read,
        not of a free-threaded one. `tasks_max`: of more tasks a random subset of this size is read.

        Raises ProcessLookupError (no such process), PermissionError (not allowed to read or trace it, or
        traced by another process), ValueError (not Python, an unsupported Python, stopped; or a bad
        argument), MemoryError (it took more time or memory than attaching may), OSError (EMFILE: out of file
        descriptors) or RuntimeError (the engine is closed).
        """

    def close(self) -> None:
        """End every session and the thread; what was counted can still be taken."""

    @property
    def cpu_ns(self) -> int:
        """CPU time of the sampling thread so far."""

@final
class Session:
    """Samples one process until `stop`."""

    def take(self) -> Batch:
        """What was counted since the last take. Sampling goes on; batches follow each other without a gap."""

    def stop(self) -> Batch:
        """End sampling, let go of the process and return what was left. Again: an empty batch."""

    def set_rate(self, rate_hz: float) -> None:
        """Sample at another rate from now on. 0 pauses: when this returns no reading goes on, and none is
        begun until a rate is set again. What is taken meanwhile has no attempts."""

    def timeline(self, seconds: float | None = None, *, after: int = 0) -> Timeline:
        """The samples of the last seconds, as far as `timed` of them were kept, without the first `after` of
        all that were taken in this session."""

    @property
    def pid(self) -> int: ...
    @property
    def mode(self) -> Literal["gil", "blocking", "nonblocking"]: ...
    @property
    def reader(self) -> Literal["own", "py-spy"]: ...
    @property
    def python(self) -> str:
        """The target's Python, like "3.11.7"."""
    @property
    def missing_states(self) -> list[str]:
        """States that cannot be told apart here.

        `cpu_wait` if the kernel gives no figures for it: such samples are `idle`, `running` or `gil`.
        `gil_wait`, `lock`, `poll`, `io` and `sleep` if /proc/PID/task/TID/syscall cannot be read; `gil_wait`
        and `lock` if the C library is musl, or py-spy reads the process: such samples are `idle`.
        """
    @property
    def names_problem(self) -> str | None:
        """Why thread names cannot be read, if they were asked for: threads are `main` and `other` then."""
    @property
    def rate_hz(self) -> float: ...
    @property
    def ended(self) -> str | None:
        """Why sampling ended by itself: "exited", "exec" or "failed: …". None while it goes on."""

@final
class Batch:
    """What was counted in [start_ns, start_ns + duration_ns)."""

    @property
    def counts(self) -> list[tuple[str, str, int, int, int, int, int, int, int, int, int]]:
        """(thread, stack, idle, running, gil, cpu_wait, gil_wait, lock, poll, io, sleep) in samples.

        `thread` is "main" or "other", or a name if names were asked for; a stack is escaped frames, root
        first, joined by `;`.
        """
    @property
    def start_ns(self) -> int:
        """Unix time in nanoseconds; exactly the end of the batch before."""
    @property
    def duration_ns(self) -> int: ...
    @property
    def attempts(self) -> int:
        """Ticks tried, failed ones included."""
    @property
    def samples(self) -> int:
        """The sum of all counts."""
    @property
    def other(self) -> int:
        """Samples counted under `(other)` because there were too many stacks."""
    @property
    def errors(self) -> dict[str, int]:
        """Failed ticks by kind: read, depth, stopped, leaving, panic, lock, moved, unstoppable, slow,
        traced, limit, descriptors, other."""
    @property
    def late_ns(self) -> int:
        """Time given up: ticks skipped after a stall, or spread out because each took too long."""
    @property
    def threads(self) -> int:
        """The most threads seen at one tick."""
    @property
    def truncated(self) -> int:
        """Samples whose stack was cut at max_depth."""
    @property
    def stops(self) -> int:
        """How often threads of the target stood still to be read."""
    @property
    def stopped_ns(self) -> int:
        """How long they stood still in all."""
    @property
    def stops_over_limit(self) -> int:
        """How many of these stops lasted longer than max_stop_us."""
    @property
    def longest_stop_ns(self) -> int: ...
    @property
    def longest_stop_cpu_ns(self) -> int:
        """The most CPU time of the sampling thread in one stop. A longer stop lasted because the kernel ran
        other threads in its place."""
    @property
    def target_cpu_ns(self) -> int: ...
    @property
    def sampler_cpu_ns(self) -> int:
        """CPU time spent on this process, attaching included."""
    @property
    def python(self) -> str:
        """The target's Python, like "3.11.7"."""

    @property
    def tasks(self) -> TaskBatch | None:
        """None if no reading of tasks was tried: not requested, no asyncio, or another Python."""

@final
class TaskBatch:
    """Await stacks of asyncio tasks, added up over the readings of a batch."""

    @property
    def rows(self) -> list[tuple[str, str, float]]:
        """(stack, state, tasks times readings); the state is task_running, task_ready or task_waiting.

        The last frame of a waiting task is what it waits for: [future], [sleep], [lock], [queue], [task] or
        [task NAME], escaped as all frames are (`%5Bsleep]`, `%5Block]`).
        """
    @property
    def readings(self) -> int: ...
    @property
    def failed(self) -> int:
        """Readings that could not be made or proved consistent; nothing of them is in `rows`."""
    @property
    def tasks(self) -> float:
        """The sum of the numbers of tasks over all readings."""
    @property
    def ready(self) -> float:
        """The same of ready tasks."""
    @property
    def longest_ready_ns(self) -> int:
        """The longest time for which a callback that was ready was seen to wait: a lower bound."""
    @property
    def loops(self) -> int:
        """The most event loops of the tasks of one reading."""

@final
class Timeline:
    """Samples one by one, oldest first."""

    @property
    def start_ns(self) -> int:
        """When the first of them was taken, in Unix time; 0 if there is none."""
    @property
    def monotonic_ns(self) -> int:
        """The same moment on the monotonic clock."""
    @property
    def threads(self) -> list[str]: ...
    @property
    def stacks(self) -> list[str]: ...
    @property
    def samples(self) -> list[tuple[int, int, int, int]]:
        """(nanoseconds since start_ns, index in threads, index in stacks, state: an index in STATES)"""
    @property
    def dropped(self) -> int:
        """Samples that made room for newer ones since sampling began."""

def fold(
    body: bytes, start: int = 0, *, remark: str | None = None, max_stacks: int, max_depth: int
) -> tuple[bytes, list[bytes], PackedStacks, int, int, int, int | None]:
    """The stacks of the folded lines from `start` on, each once, in ascending order of hash and then of text.

    A line that begins with `#` ends them; with a `remark` none does, and lines that begin with that text are
    passed over. Returns the column hash (XXH3 64-bit, seed 0) and a column for each of STATES as 64-bit
    integers in the machine's order, the packed stacks, all samples, those whose stack is clipped, how many
    lines were read and where the next header begins. Stacks deeper than `max_depth` are clipped, those
    without samples left out.

    Raises ValueError for a line that is not a stack and a count, and beyond `max_stacks`.
    """

def pack_stacks(stacks: list[str]) -> PackedStacks:
    """Pack stacks as `sidelight_collector.stack_hashing` does.

    Raises ValueError beyond 2^31-1 frames or bytes.
    """

def build_segment_stacks(
    windows: list[tuple[int, bytes, PackedStacks]],
) -> tuple[bytes, bytes, bytes, PackedStacks]:
    """Build the table `stacks` of a segment: one row for each distinct stack of a service, in order of hash.

    Of each window: the number of its service, the hashes of its stacks (64-bit), and the stacks. Windows of a
    service follow each other. Returns services (32-bit), hashes, depths (32-bit) and stacks.

    Raises ValueError for columns that do not fit each other, and beyond 2^31-1 frames or bytes.
    """

def read_pprof_header(
    content: bytes, limits: tuple[int, int, int, int, int, int]
) -> tuple[list[tuple[str, str]], tuple[str, str], int, int, int]:
    """Names and units of the values and of the period of a pprof profile, its period, time and duration (ns).

    The limits are those of `sum_pprof`. Raises ValueError with a word and what is damaged.
    """

def sum_pprof(
    content: bytes,
    limits: tuple[int, int, int, int, int, int],
    *,
    states: list[tuple[int, int]],
    whole: tuple[int, int] | None,
    count: int | None,
    unit_ns: int,
    period_ns: int,
    dropped: list[str],
) -> tuple[list[SampleGroup], int, list[str], int]:
    """The samples of a pprof profile by label set, in whole samples of one period.

    `limits` bounds entries, bytes of text, stacks of a group, frames of a stack, groups, and names of labels.
    `states` pairs the index of a value with the state that it counts for; `whole` is the value of which those
    are a part, and the state of the rest; `count` is the value that counts samples. `dropped` are names of
    labels that make no group.

    Returns for each group its labels, and hashes, counts, stacks, samples and clipped samples as `fold` does;
    the period (ns), the names of labels that were dropped, and the bytes of text.

    Raises ValueError with a word (`damaged`, `entries`, `stacks`, `text`, `time`) and what is damaged.
    """

@final
class Pool:
    """Stacks of frames, numbered from 0, and the call trees that they make; safe in threads.

    Columns are contiguous buffers as Arrow has them: 32-bit offsets and codes, 64-bit counts. Stack 0 is one
    frame, `first`. Without `lines` frames go without their line numbers.
    """

    def __new__(cls, first: str, *, lines: bool) -> Pool: ...
    def __len__(self) -> int: ...
    def take(self, offsets: Buffer, codes: Buffer, word_offsets: Buffer, words: Buffer, rows: Buffer) -> None:
        """Add these rows of a column of lists of words.

        Raises ValueError for columns that do not fit each other; the pool is of no use after that.
        """
    def draw(
        self, sides: Sequence[tuple[Buffer, Buffer, Buffer]], most: int
    ) -> tuple[list[str], bytes, bytes, list[bytes], list[bytes], bytes, int, int] | None:
        """The call tree of sides, given as columns of stack numbers, samples and ns that a sample stands for.

        Returns names, the level and the name of each node in pre-order, for each side the samples and
        microseconds that ended there, the node that each stack ends at (-1 if no side has it), how many nodes
        there were and how many were dropped to keep the heaviest `most`. Columns are 64-bit integers. None if
        samples or nanoseconds add up to more than 63 bits.
        """

    def costs(
        self, sides: Sequence[tuple[Buffer, Buffer, Buffer]]
    ) -> list[tuple[str, list[tuple[int, int, int, int]]]] | None:
        """What each frame cost on each side: self samples, total samples, self ns, total ns; None as `draw`.

        A total has a stack once, however often the frame is in it.
        """

    def words(self) -> list[str]:
        """Every frame that stacks may have, each once."""
    def depths(self) -> bytes:
        """The frames of each stack, as 32-bit numbers."""
    def holding(self, wanted: Buffer) -> tuple[bytes, bytes]:
        """For each stack whether it has a word for which `wanted` has a 1, and whether it ends with one."""
    def walk(self, classes: Buffer, steps: Buffer, marks: Buffer, start: int) -> tuple[bytes, bytes]:
        """The state in which an automaton leaves each stack, and the word that it marked last, or -1.

        Columns are of bytes, the marked words 32-bit numbers. `classes` are those of words, below 16. For
        each state, and each class in it, `steps` has the next state, and `marks` whether the marked word
        stays (0), is this one (1) or is forgotten (2).
        """

    def spread(self, rows: tuple[Buffer, Buffer, Buffer], place: Buffer, cells: int) -> tuple[bytes, bytes]:
        """What words weigh in each of so many cells, as tables of 64-bit floating point numbers.

        Rows are columns of stack numbers (32 bits), of cells (32 bits) and of weights (floating point).
        `place` has the row in the tables of each word, or -1 (32 bits). The first table has the stacks that
        end with a word, the second those that have it, each once. Raises ValueError for columns that do not
        fit.
        """

def escape(text: str) -> str:
    """Escape a frame text as the stacks of a batch are escaped."""

def serve_readers() -> None:
    """Become the parent of the processes in which py-spy reads targets, until standard input is closed.

    An engine starts it in a Python process of its own, when it needs py-spy for the first time.
    """

def snapshot(
    pid: int, *, reader: Literal["own", "py-spy"] = "own", max_depth: int = 4096
) -> list[tuple[int, str]]:
    """(pthread, stack) of each thread as one reader finds it, once. Nothing is stopped for it.

    Raises RuntimeError if the process cannot be read.
    """
