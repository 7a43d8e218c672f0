"""The command lines of the demo's child processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sidelight_cli.demo.processes.child_process import ChildCommand, build_python_command
from sidelight_cli.demo.settings import DemoSettings
from sidelight_cli.demo.versions import SERVICE, DemoVersion, find_services_directory

WARM_UP_SECONDS = 2.0
PROGRESS_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class DemoCommands:
    """Builds the commands of the demo's children.

    All files that the children write are below `directory`.
    """

    settings: DemoSettings
    directory: Path

    @property
    def store_directory(self) -> Path:
        """The collector's store directory."""
        return self.directory / "store"

    def build_port_file_path(self, name: str) -> Path:
        """Return the file to which a child writes its port."""
        return self.directory / f"{name}.port"

    def build_spool_path(self, version: DemoVersion) -> Path:
        """Return the spool directory of a version's sidecar."""
        return self.directory / "spool" / version.name

    def build_collector_command(self, host: str, port: int) -> ChildCommand:
        """Build the command of the collector, with a directory store."""
        return ChildCommand(
            "collector",
            build_python_command(
                *("-m", "sidelight.main", "collector", "--listen", _format_address(host, port)),
                *(
                    "--store",
                    str(self.store_directory),
                    "--port-file",
                    str(self.build_port_file_path("collector")),
                ),
            ),
            hint="Try another address with --listen, or --listen 127.0.0.1:0 for any free port.",
        )

    def build_service_command(self, version: DemoVersion) -> ChildCommand:
        """Build the command of one of the four services."""
        program = find_services_directory() / version.program
        return ChildCommand(
            f"service {version.name}",
            build_python_command(str(program), "--port-file", str(self.build_port_file_path(version.name))),
            hint="Install what the services need: pip install 'sidelight-cli[demo]'.",
            allows_ptrace=True,
        )

    def build_sidecar_command(self, version: DemoVersion, pid: int, collector: str) -> ChildCommand:
        """Build the command of the sidecar for one service."""
        settings = self.settings
        return ChildCommand(
            f"sidecar {version.name}",
            build_python_command(
                *("-m", "sidelight.main", "sidecar", "--collector", collector, "--pid", str(pid)),
                *("--service", SERVICE, "--version", version.name, "--pod", f"{SERVICE}-{version.name}"),
                *("--rate", f"{settings.sample_rate:g}", "--window-seconds", f"{settings.window_seconds:g}"),
                # Larger budgets than the defaults: a short run on a busy machine needs all its samples.
                *("--budget-cpu-percent", "10", "--budget-stop-percent", "10"),
                *("--spool-dir", str(self.build_spool_path(version)), "--listen", "127.0.0.1:0"),
            ),
            hint="A sidecar must be allowed to read its service's memory: run the demo as root, "
            "or in a container with SYS_PTRACE.",
        )

    def build_load_command(self, version: DemoVersion, port: int) -> ChildCommand:
        """Build the command of a load generator that waits for its start time."""
        settings = self.settings
        return ChildCommand(
            f"load {version.name}",
            build_python_command(
                *("-m", "sidelight_cli.demo.processes.load_generator", "--url", f"http://127.0.0.1:{port}"),
                *("--rate", f"{settings.rate:g}", "--seconds", f"{settings.round_seconds:g}"),
                *("--rounds", str(settings.round_count), "--warm-up-seconds", f"{WARM_UP_SECONDS:g}"),
                *("--wait", "--progress-seconds", f"{PROGRESS_SECONDS:g}"),
            ),
            hint="Try a lower --rate.",
            has_pipes=True,
        )


def _format_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
