"""Whether what was seen of a service is right, within bounds that follow from how often was looked.

A share p seen in n ticks scatters by sqrt(p (1 - p) / n); four of those and one point more are allowed.
A thread that waits for a CPU counts as running, which it would be on a machine with room: what the
kernel says it waited is allowed on top, on that side alone. A tick that failed may have been either; on a
machine with room few fail, and on one without a stop ends at its bound before the stacks are read.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from tests.services.stacks import Service

_DEVIATIONS = 4.0
_MARGIN = 0.01
_ENOUGH_TICKS = 200
_MOST_FAILED = 0.05
_CROWDED = 0.05


@dataclass(slots=True)
class Process:
    """One process as the sidecar saw it, and its truth (in cores) over the same span."""

    pid: int
    role: str
    ticks: int
    failed: int
    busy: int
    leaves: Counter[str]
    cpu: float = 0.0
    waited: float = 0.0

    @property
    def tried(self) -> int:
        return self.ticks + self.failed

    @property
    def seen(self) -> float:
        """Busy threads per tick: cores, when nothing waits for one."""
        return self.busy / self.ticks if self.ticks else 0.0


@dataclass(slots=True)
class Seen:
    """A service as it was seen: its processes, and what is known of them from elsewhere."""

    processes: list[Process]
    alive: list[int]
    unseen: list[int]
    stopped: list[int]
    burnt: float
    unanswered: dict[str, int] = field(default_factory=dict)
    native: frozenset[str] = frozenset()
    mode: str = ""
    sampler: str = ""
    python: str = ""

    def cores(self) -> tuple[float, float]:
        """What was seen and what was true, all processes together."""
        return sum(one.seen for one in self.processes), sum(one.cpu for one in self.processes)

    def leaf_share(self, leaf: str) -> float:
        """The part of the busy samples that ends in this function."""
        busy = sum(one.busy for one in self.processes)
        return sum(one.leaves[leaf] for one in self.processes) / busy if busy else 0.0


def allowed(share: float, ticks: int) -> float:
    """How far a share may be seen from what it is."""
    scatter = math.sqrt(max(share * (1 - share), 0.0) / ticks) if ticks else 1.0
    return _DEVIATIONS * scatter + _MARGIN


def problems(service: Service, seen: Seen) -> list[str]:
    """What is wrong, in sentences; nothing if the service is supported."""
    found = [f"{count} requests ended in {kind}" for kind, count in seen.unanswered.items() if count]
    found += [f"process {pid} was left stopped" for pid in seen.stopped]
    found += [f"process {pid} runs Python and was not sampled" for pid in seen.unseen]
    found += _roles(service, seen)
    found += _leaf(service, seen)
    for process in seen.processes:
        found += _share(process)
    if service.native and not any(frame.startswith(service.native) for frame in seen.native):
        found.append(f"a native capture has no frame {service.native!r}, but {sorted(seen.native)[:5]}")
    return found


def _roles(service: Service, seen: Seen) -> list[str]:
    roles = Counter(one.role for one in seen.processes if one.pid in seen.alive)
    if service.recycled:
        workers = sum(one.role == "worker" for one in seen.processes)
        enough = workers > service.roles["worker"] and roles["master"] == 1
        return [] if enough else [f"{workers} workers came and went under {roles['master']} masters"]
    return [] if roles == service.roles else [f"the processes are {dict(roles)}, not {service.roles}"]


def _leaf(service: Service, seen: Seen) -> list[str]:
    leaves: Counter[str] = Counter()
    for one in seen.processes:
        leaves.update(one.leaves)
    if not leaves:
        return ["nothing was seen computing"]
    if (first := leaves.most_common(1)[0][0]) != service.leaf:
        return [f"most busy samples end in {first}, not in {service.leaf}"]
    burning = [one for one in seen.processes if one.leaves[service.leaf]]
    # Workers that come and go share the time of their master. Others are there all the time, each has its
    # own ticks; what all of them scatter is at most what one with the fewest would.
    longest = max(one.tried for one in seen.processes)
    span = {one.pid: longest if service.recycled else one.tried for one in burning}
    least = sum(one.leaves[service.leaf] / span[one.pid] for one in burning)
    most = sum((one.leaves[service.leaf] + one.failed) / span[one.pid] for one in burning)
    waited = sum(one.waited * one.tried / span[one.pid] for one in burning)
    off = allowed(seen.burnt, min(span.values()))
    if seen.burnt - off <= most and least <= seen.burnt + waited + off:
        return []
    return [f"{service.leaf} was seen {least:.3f} of the time, and took {seen.burnt:.3f}"]


def _share(process: Process) -> list[str]:
    if process.ticks < _ENOUGH_TICKS:
        return []
    who, found = f"{process.role} {process.pid}", []
    tried = process.tried
    if process.failed > _MOST_FAILED * tried and process.waited < _CROWDED:
        found.append(f"{process.failed} of {tried} ticks of {who} failed")
    off = allowed(max(process.cpu, process.seen), process.ticks)
    least, most = process.busy / tried, (process.busy + process.failed) / tried
    if most < process.cpu - off or least > process.cpu + process.waited + off:
        found.append(
            f"{who} was busy {process.seen:.3f} of the time as sampled, {process.cpu:.3f} by its CPU time "
            f"(which waited {process.waited:.3f})"
        )
    return found
