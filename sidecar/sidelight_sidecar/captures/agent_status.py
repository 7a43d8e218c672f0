"""What a sidecar says of itself to the collector: who it is, and whether it could take a capture now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sidelight import __version__
from sidelight_model.capture_protocol import MAX_PROCESSES, AgentStatus, RequestLimits, SampledProcess
from sidelight_model.labels import Labels
from sidelight_sidecar.captures.captures import Bounds
from sidelight_sidecar.health import Board
from sidelight_sidecar.overhead.pause_control import Switches
from sidelight_sidecar.samplers.sampler import COMMAND
from sidelight_sidecar.sampling.process_watcher import Fleet

_OF_SENDING = ("collector", "sending from the spool", "spool")


class AgentStatusReader:
    """Reads the sidecar's parts when it is asked; equal answers mean that nothing has changed."""

    def __init__(
        self,
        agent: str,
        labels: Mapping[str, str],
        mode: str,
        modes: Sequence[str],
        bounds: Bounds,
        fleet: Fleet,
        switches: Switches,
        board: Board,
    ) -> None:
        self._constant = AgentStatus(
            agent,
            Labels(labels),
            __version__,
            "py-spy" if mode == COMMAND else "native",
            RequestLimits(tuple(modes), bounds.max_seconds, bounds.max_rate),
        )
        self._fleet = fleet
        self._switches = switches
        self._board = board

    def read(self) -> AgentStatus:
        """How it is now. What keeps windows from being sent keeps no capture from being taken."""
        wrong = [problem for about, problem in self._board.problems.items() if about not in _OF_SENDING]
        watches = self._fleet.watches
        first = wrong[0] if wrong else None
        return replace(
            self._constant,
            ready=bool(watches) and not wrong and not self._switches.paused,
            problem=first.message if first else "",
            hint=first.hint if first else "",
            paused=self._switches.paused,
            processes=tuple(
                SampledProcess(watch.key.pid, watch.role, watch.python) for watch in watches[:MAX_PROCESSES]
            ),
        )
