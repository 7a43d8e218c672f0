"""The samplers that are available on this machine, by mode."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path
from typing import Any

from sidelight_model.errors import Reason
from sidelight_sidecar.discovery.procfs import ProcFs
from sidelight_sidecar.samplers.native_sampler import NativeSampler
from sidelight_sidecar.samplers.permissions import make_denied_error, read_own_rights, read_target_identity
from sidelight_sidecar.samplers.pyspy_command import CommandSampler
from sidelight_sidecar.samplers.sampler import Sampler, SamplingError
from sidelight_sidecar.sampling_settings import CAPTURE_MODES


class SamplerRegistry:
    """Creates samplers.

    `extension` is the module `sidelight_native`, or None if it is not built. All sessions of the extension
    share one engine, which samples in one thread.
    """

    def __init__(
        self,
        extension: Any | None,
        procfs: ProcFs,
        *,
        max_depth: int,
        max_stacks: int = 50_000,
        max_stop_us: int = 2000,
        tasks_hz: float = 0.0,
    ) -> None:
        self._extension = extension
        self._procfs = procfs
        self._max_depth = max_depth
        self._max_stacks = max_stacks
        self._tasks_hz = tasks_hz
        self._can_stop = read_own_rights().blocked_call != "ptrace"
        self._engine: Any | None = None
        if extension is not None:
            self._engine = extension.Engine(max_stop_us=max_stop_us, max_stacks=max_stacks)

    def get(self, mode: str, max_timed_samples: int = 0) -> Sampler:
        """Return the sampler of a mode.

        `auto` is the extension, or the command if there is no extension. `native` is the command with C
        frames. With `max_timed_samples` a sampler that can keeps individual samples, at most this many
        between two takes.

        Raises SamplingError (`sampler_missing`).
        """
        if mode in ("command", "native") or (mode == "auto" and self._extension is None):
            return CommandSampler(
                find_pyspy(),
                self._procfs,
                max_depth=self._max_depth,
                max_stacks=self._max_stacks,
                unwind_native=mode == "native",
                explain_denial=self._explain_denial,
            )
        if self._extension is None or self._engine is None:
            raise SamplingError(
                f"mode {mode} needs the extension sidelight_native, which is not built for this Python",
                reason=Reason.SAMPLER_MISSING,
                hint="Install it (make native), or use mode auto or command.",
            )
        version = self._extension.__version__
        return NativeSampler(
            self._engine,
            version,
            mode,
            max_depth=self._max_depth,
            explain_denial=self._explain_denial,
            max_timed_samples=max_timed_samples,
            can_stop=self._can_stop,
            tasks_hz=self._tasks_hz,
        )

    @property
    def capture_modes(self) -> tuple[str, ...]:
        """The modes that a capture may request."""
        return ("auto", "command", "native") if self._extension is None else CAPTURE_MODES

    @property
    def cpu_seconds(self) -> float:
        """CPU time of the engine's thread so far."""
        return 0.0 if self._engine is None else self._engine.cpu_ns / 1e9

    def close(self) -> None:
        """End the engine and all of its sessions."""
        if self._engine is not None:
            self._engine.close()

    def _explain_denial(self, pid: int) -> SamplingError:
        tracers = {tracer for _, tracer in self._procfs.read_thread_states(pid) if tracer}
        return make_denied_error(
            pid, read_own_rights(), read_target_identity(pid, tracer=min(tracers, default=0))
        )


def find_pyspy() -> Path:
    """Return the py-spy command installed with this Python, or else from PATH."""
    installed = Path(sysconfig.get_path("scripts")) / "py-spy"
    if installed.exists():
        return installed
    in_path = shutil.which("py-spy")
    if in_path is None:
        raise SamplingError(
            "there is no py-spy command",
            reason=Reason.SAMPLER_MISSING,
            hint="pip install 'sidelight-sidecar[py-spy]'",
        )
    return Path(in_path)
