"""The command lines of the demo's child processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sidelight_cli.demo.processes.child_process import Command, python
from sidelight_cli.demo.settings import Settings
from sidelight_cli.demo.versions import SERVICE, Version, services_directory

WARM_UP_SECONDS = 2.0
PROGRESS_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Programs:
    """Says how each child of one demo is started; everything that is written lies below `directory`."""

    settings: Settings
    directory: Path

    @property
    def store(self) -> Path:
        """The directory with the windows."""
        return self.directory / "store"

    def port_file(self, name: str) -> Path:
        """Where a child writes its port."""
        return self.directory / f"{name}.port"

    def spool(self, version: Version) -> Path:
        """Where a sidecar keeps windows until the collector has them."""
        return self.directory / "spool" / version.name

    def collector(self, host: str, port: int) -> Command:
        """The collector, on its directory store."""
        return Command(
            "collector",
            python(
                *("-m", "sidelight.main", "collector", "--listen", _address(host, port)),
                *("--store", str(self.store), "--port-file", str(self.port_file("collector"))),
            ),
            hint="Try another address with --listen, or --listen 127.0.0.1:0 for any free port.",
        )

    def service(self, version: Version) -> Command:
        """One of the four services."""
        program = services_directory() / version.program
        return Command(
            f"service {version.name}",
            python(str(program), "--port-file", str(self.port_file(version.name))),
            hint="Install what the services need: pip install 'sidelight-cli[demo]'.",
            watched=True,
        )

    def sidecar(self, version: Version, pid: int, collector: str) -> Command:
        """The sidecar of one service."""
        settings = self.settings
        return Command(
            f"sidecar {version.name}",
            python(
                *("-m", "sidelight.main", "sidecar", "--collector", collector, "--pid", str(pid)),
                *("--service", SERVICE, "--version", version.name, "--pod", f"{SERVICE}-{version.name}"),
                *("--rate", f"{settings.sample_rate:g}", "--window-seconds", f"{settings.window_seconds:g}"),
                # A run of seconds needs its samples, on a machine that its load keeps busy.
                *("--budget-cpu-percent", "10", "--budget-stop-percent", "10"),
                *("--spool-dir", str(self.spool(version)), "--listen", "127.0.0.1:0"),
            ),
            hint="A sidecar must be allowed to read its service's memory: run the demo as root, "
            "or in a container with SYS_PTRACE.",
        )

    def load(self, version: Version, port: int) -> Command:
        """The load on one service, which waits for the time to start."""
        settings = self.settings
        return Command(
            f"load {version.name}",
            python(
                *("-m", "sidelight_cli.demo.processes.load_generator", "--url", f"http://127.0.0.1:{port}"),
                *("--rate", f"{settings.rate:g}", "--seconds", f"{settings.round_seconds:g}"),
                *("--rounds", str(settings.rounds), "--warm-up-seconds", f"{WARM_UP_SECONDS:g}"),
                *("--wait", "--progress-seconds", f"{PROGRESS_SECONDS:g}"),
            ),
            hint="Try a lower --rate.",
            output=True,
        )


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
