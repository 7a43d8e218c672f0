"""A small world in one thread: sidecars, collectors, compactors, retention, queries, and a store that fails.

Everybody in it is the real code, on a greenlet of its own: at each operation on the store whoever is drawn
goes on, and the operation may go wrong. Time is a number. All is drawn from one seed, so that a run that went
wrong can be had again.

Window number n has 4 ** n samples: whatever an answer adds up, its samples say which windows it counted, and
how often.
"""

from __future__ import annotations

import math
from asyncio import events
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from random import Random

import pytest
from greenlet import getcurrent, greenlet
from ulid import ULID

from sidelight_collector.settings.types import RetentionDays
from sidelight_collector.storage import blocks, manifest
from sidelight_collector.storage.lifecycle import compaction, retention
from sidelight_collector.storage.lifecycle.compaction import Compaction
from sidelight_collector.storage.objects import ObjectStore, StoreError
from sidelight_collector.storage.segments import event_day, parse_segment_key
from sidelight_collector.storage.tables import DAY_NS, HOUR_NS
from sidelight_model.counts import Counts
from sidelight_model.folded import Stack
from sidelight_model.labels import Labels
from sidelight_model.window import Quality, Window
from tests.collector.faults import Died
from tests.collector.simulated_processes import (
    METRICS,
    RULES,
    Collector,
    Compactor,
    Expiring,
    Querier,
    Rot,
    Sidecar,
)
from tests.collector.simulated_queries import EVER, MIDNIGHT, Claim, Inline, ask, drawn
from tests.collector.simulated_store import READS, Trouble

OPERATIONS = 80
"""After so many the weather clears, and everybody comes to an end."""


@dataclass
class Sent:
    """A window, and what has become of it."""

    number: int
    window: Window
    sent: bool = False
    acknowledged: bool = False

    @property
    def day(self) -> date:
        return event_day(self.window.start_ns)


@dataclass
class Actor:
    """Somebody who goes on when drawn, once it is `wake`."""

    name: str
    run: greenlet
    wake: float


class World:
    """One run: `play` it, and it says by AssertionError what was wrong."""

    def __init__(self, seed: int, store: ObjectStore, *, faults: bool = True, operations: int = OPERATIONS):
        self.seed = seed
        self.luck = Random(seed)
        self.store = self.far = store
        self.now = MIDNIGHT + self.luck.choice((100.0, 43_200.0, 86_390.0))
        self.trace: list[str] = []
        self.pristine: dict[str, bytes] = {}
        self.lost: set[str] = set()
        """Ids of windows that lay in an object that has been damaged."""
        self.spoils = False
        self.stalls = False
        """Whether somebody stood still so long that a segment was deleted while it was written once more."""
        self.downsampled = self.deleted = date.min
        """Windows of days until these may be left as sums only, or not at all."""
        self.operations = operations
        self.rate = self.luck.choice((0.0, 0.02, 0.05, 0.15)) if faults else 0.0
        kinds = list(Trouble)
        self.kinds = self.luck.choice((kinds, self.luck.sample(kinds, 3), sorted(READS, key=str)))
        self.storm = True
        self.windows = [Sent(number, each) for number, each in enumerate(self._windows())]
        self.collectors = [Collector(self, at) for at in range(self.luck.choice((1, 2)))]
        self.answered = 0
        self._hub = getcurrent()
        self._actors: list[Actor] = []
        self._awaited: dict[str, tuple[int, str]] = {}
        self._weather: Callable[[bool], None] = lambda _: None
        self._later: list[tuple[float, Callable[[], object]]] = []

    # What the world is made of

    def _windows(self) -> Iterator[Window]:
        """Some near midnight, some late, some of old days; now and then two with one id.

        Ids have the time of the start, as those of sidecars do, or that of midnight. Of two windows with one
        id, the second may begin at another time of the same day.
        """
        luck, number = self.luck, 0
        most = luck.choice((2, 3, 5))
        today = MIDNIGHT * 10**9
        edges = [
            *(today - 1, today, today + HOUR_NS - 1, today + HOUR_NS, today + 86_400 * 10**9 - 1),
            *(today + luck.randrange(86_400 * 10**9) for _ in range(3)),
            *(today - luck.choice((1, 2, 20)) * 24 * HOUR_NS + 5 * HOUR_NS for _ in range(3)),
        ]
        starts = luck.sample(edges, luck.choice((1, 2, 4)))
        while number < most:
            start = luck.choice(starts)
            twins = 2 if luck.random() < 0.1 else 1
            id_time = start if luck.random() < 0.7 else start // DAY_NS * DAY_NS
            window_id = f"{str(ULID.from_timestamp(id_time // 10**6))[:10]}{number:016d}"
            for twin in range(twins):
                if twin and luck.random() < 0.7:
                    start = luck.choice([other for other in edges if event_day(other) == event_day(start)])
                counts = {Stack("main"): Counts(4**number), Stack(f"main;f{number}"): Counts(0, 0, 4**number)}
                labels = Labels({"service": f"s{number % 2}", "pod": f"p{number % 3}", "version": "1"})
                told = Quality(attempts=100, mode="blocking")
                yield Window(window_id, labels, start, 10**9, 10**7, counts, told)
                number += 1

    def play(self) -> None:
        """Let everybody do their part, then let it settle, and see that all is there."""
        luck = self.luck
        sidecars = [Sidecar(self, at, self.windows[at::2]) for at in range(2)]
        parts: list[tuple[str, Callable[[], None]]] = [
            *((each.name, each.body) for each in sidecars),
            *((each.name, each.body) for each in self.collectors),
            *((f"compactor {at}", Compactor(self, at).body) for at in range(luck.choice((1, 2)))),
            *((f"query {at}", Querier(self, at).body) for at in range(luck.choice((1, 1, 2)))),
        ]
        if luck.random() < 0.3:
            parts.append(("retention", Expiring(self).body))
        if self.rate and luck.random() < 0.35:
            parts.append(("rot", Rot(self).body))
        for name, body in parts:
            self._actors.append(Actor(name, greenlet(body), self.now))
        self._weather(True)
        self._run(lambda: not self.storm)
        self._weather(False)
        ending = [each for each in self._actors if each.name.startswith(("sidecar", "query"))]
        for each in ending:
            self.wake(each.name)
        self._run(lambda: all(each.run.dead for each in ending))
        self._end()
        self._settle()

    def _run(self, done: Callable[[], bool]) -> None:
        while not done():
            alive = [each for each in self._actors if not each.run.dead]
            ready = [each for each in alive if each.wake <= self.now]
            if not ready:
                if not alive:
                    return
                self.pass_until(min(each.wake for each in alive))
                continue
            self.luck.choice(ready).run.switch()

    def _end(self) -> None:
        """Those who go on for ever die."""
        self.bury()
        self.pass_until(self.now + 1000)

    def bury(self) -> None:
        for each in self._actors:
            while not each.run.dead:
                with suppress(Died):
                    each.run.throw(Died)

    def _settle(self) -> None:
        """One compactor that nothing happens to; after it nothing is left over."""
        before = ask(self.store, Claim(timeline=self.luck.random() < 0.5))
        wanted = {each.window.id for each in self.windows if each.acknowledged}
        self.check(before, wanted, self.now, "in the end")
        self.now = max(self.now, MIDNIGHT + 3 * 86_400.0)
        one = Compaction(
            self.store, METRICS, RULES, interval_seconds=1, clock=lambda: self.now, timer=lambda: self.now
        )
        for _ in range(5):
            one.run_once()
            self.now += RULES.orphan_age_seconds
        if self.deleted > date.min:
            self._delete_again()
        for claim in (self.luck.choice((Claim(by_window=True), Claim(timeline=True), Claim())),):
            found = ask(self.store, claim)
            self.check(found, wanted, self.now, "settled")
            if not self.lost and not self.spoils and self.downsampled == date.min:
                assert found.counted == before.counted, "compaction changed the answer"
        for _ in range(3):
            self.check(ask(self.store, drawn(self.luck)), wanted, self.now, "settled")
        if not self.spoils and self.downsampled == date.min:
            self._is_tidy()

    def _delete_again(self) -> None:
        """Delete what was committed while retention deleted its day, as the next run of retention does."""
        now = datetime.fromtimestamp(self.now, UTC)
        days = (now.date() - self.deleted).days - 1
        policy = retention.RetentionPolicy(RetentionDays(days, days, days))
        retention.Retention(self.store, METRICS, policy=policy, interval_seconds=1).run_once(now)

    def _is_tidy(self) -> None:
        keys = {entry.key for entry in self.store.list("v1/")}
        days = manifest.list_days(self.store)
        read = [manifest.read(self.store, day).document for day in days]
        named = [block for each in read for block in (*each.blocks, *each.live_rollups)]
        gone = [key for day in days for key in manifest.read(self.store, day).document.tombstones]
        wanted = {manifest.key_of(day) for day in days} | {b.ref.key(part) for b in named for part in b.parts}
        # Tables of segments that were never committed stay until retention.
        left = {key for key in keys - wanted if not key.startswith("v1/l0/") or parse_segment_key(key)}
        assert not left, f"left over: {sorted(left)}"
        assert wanted <= keys, f"missing: {sorted(wanted - keys)}"
        assert not gone, f"gone and not forgotten: {gone}"

    def network(self, far: ObjectStore, weather: Callable[[bool], None]) -> None:
        """Everybody sees the store from `far`, where things go wrong while the `weather` is bad."""
        self.rate, self.kinds, self.spoils = 0.1, [], True
        self.far, self._weather = far, weather

    # What happens in it

    def tell(self, *words: object) -> None:
        """One line of the trace; after so many the weather clears."""
        self.trace.append(f"{self.now - MIDNIGHT:11.2f} {' '.join(str(word) for word in words if word)}")
        for name, (number, text) in list(self._awaited.items()):
            if len(self.trace) >= number or (text and text in self.trace[-1]):
                del self._awaited[name]
                self.wake(name)
        if len(self.trace) >= self.operations:
            self.storm = False

    def drawn(self) -> Trouble | None:
        """What goes wrong with the next operation."""
        if not self.storm or not self.kinds or self.luck.random() >= self.rate:
            return None
        return self.luck.choice(self.kinds)

    def is_suspended(self) -> bool:
        """Whether a process is suspended just before it replaces a manifest, and others are not."""
        return self.storm and self.rate > 0 and Trouble.STALLED in self.kinds and self.luck.random() < 0.15

    def pause(self, seconds: float = 0.0) -> None:
        """Whoever calls goes on after this while; others do before."""
        me = getcurrent()
        if me is self._hub:
            return
        actor = next(each for each in self._actors if each.run is me)
        actor.wake = self.now + seconds
        # A thread has one running event loop; here each greenlet may have one.
        loop = events._get_running_loop()
        events._set_running_loop(None)
        try:
            self._hub.switch()
        finally:
            events._set_running_loop(loop)

    def wake(self, name: str) -> None:
        """Whoever waits for something need not any longer."""
        for each in self._actors:
            if each.name == name and each.wake == math.inf:
                each.wake = self.now

    def await_operation(self, name: str, text: str = "") -> None:
        """Go on in the middle of what others are doing.

        That is after any number of operations, or at the first one with this text in its line of the trace.
        """
        most = self.operations if text else self.operations // 2
        self._awaited[name] = (len(self.trace) + self.luck.randrange(most), text)
        self.pause(math.inf)

    def may_lack(self, window: Window, claim: Claim) -> bool:
        """Whether retention may have deleted what an answer would count of a window."""
        day = event_day(window.start_ns)
        # Sums of stacks are over the pods of a service: those of one pod are in single windows alone.
        is_whole = (claim.from_ns, claim.until_ns) == EVER and not (claim.by_window or claim.pod)
        return day <= (self.deleted if is_whole else self.downsampled)

    def later(self, seconds: float, operation: Callable[[], object]) -> None:
        """Do this after a while, told to nobody."""
        self._later.append((self.now + seconds, operation))

    def pass_until(self, moment: float) -> None:
        """Time goes by, and what was delayed happens."""
        due = sorted((each for each in self._later if each[0] <= moment), key=lambda each: each[0])
        self._later = [each for each in self._later if each[0] > moment]
        for _, operation in due:
            with suppress(StoreError):
                operation()
        self.now = max(self.now, moment)

    def spoilt(self, content: bytes, *, flip: bool) -> bytes:
        """The bytes with one bit changed, or fewer of them."""
        self.spoils = True
        if not content:
            return b"\0"
        at = self.luck.randrange(len(content))
        if not flip:
            return content[:at]
        return content[:at] + bytes([content[at] ^ (1 << self.luck.randrange(8))]) + content[at + 1 :]

    # What must be so

    def check(self, claim: Claim, wanted: Collection[str], began: float, when: str) -> None:
        """An answer has what was acknowledged before it began, nothing that was not sent, nothing twice."""
        self.answered += 1
        counted: dict[str, int] = {}
        for number, times in claim.counted.items():
            assert number < len(self.windows), f"{when}: an answer counts what nobody sent: {claim.counted}"
            each = self.windows[number]
            assert times == 1, f"{when}: window {number} is counted {times} times"
            assert each.sent, f"{when}: window {number} is counted and was not sent"
            if each.day > self.downsampled:
                assert claim.covers(each.window), f"{when}: window {number} is counted and was not asked for"
            counted[each.window.id] = counted.get(each.window.id, 0) + 1
            assert counted[each.window.id] == 1, f"{when}: two windows with one id are counted"
        told = sum(counted.values())
        assert claim.windows == told, f"{when}: {claim.windows} windows are told of {told}"
        if claim.unreadable:
            excused = self.downsampled > date.min or self.now - began >= RULES.deletion_delay_seconds
            excused = self.spoils or ((excused or self.stalls) and when != "settled")
            assert excused, f"{when}: {claim.unreadable} segments are called unreadable"
            if self.storm:
                return
        may_lack = set(self.lost) if claim.unreadable else set()
        elsewhere = {each.window.id for each in self.windows if not claim.covers(each.window)}
        for each in self.windows:
            if each.window.id in wanted and each.window.id not in may_lack | elsewhere:
                assert each.window.id in counted or self.may_lack(each.window, claim), (
                    f"{when}: window {each.number} was acknowledged and is not counted "
                    f"({claim.unreadable} unreadable, lost {sorted(self.lost)})"
                )


def played(world: World) -> World:
    """The world after its run; AssertionError with how to have it again."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (compaction, retention):
            patch.setattr(module, "ThreadPoolExecutor", Inline)
        patch.setattr(blocks, "token_hex", lambda n: f"{world.luck.getrandbits(8 * n):0{2 * n}x}")
        try:
            world.play()
        except Exception as error:
            trace = "\n".join(world.trace)
            raise AssertionError(
                f"seed {world.seed}: {type(error).__name__}: {error}\n{trace}\n"
                f"seed {world.seed}: {type(error).__name__}: {error}\n"
                f"alone: SIDELIGHT_TEST_FAULT_SEED={world.seed} pytest tests/collector/test_store_faults.py"
            ) from error
        finally:
            world.bury()
    return world
