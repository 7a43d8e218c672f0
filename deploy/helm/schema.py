"""Writes the names of the programs' settings into the chart's schema: a slip of the pen is refused.

`schema.py [FILE]` changes FILE, or the schema of the chart: its definitions collectorSettings,
sidecarSettings, injectorSettings and agentSettings.
"""

import dataclasses
import json
import sys
from pathlib import Path

from sidelight_collector.settings.collector import Settings as Collector
from sidelight_injector.settings import Settings as Injector
from sidelight_sidecar.agent.settings import AgentSettings as Agent
from sidelight_sidecar.settings import SidecarSettings as Sidecar

SCHEMA = Path(__file__).resolve().parent / "sidelight" / "values.schema.json"


def main(argv: list[str]) -> None:
    target = Path(argv[0]) if argv else SCHEMA
    schema = json.loads(target.read_text(encoding="utf-8"))
    programs = {"collector": Collector, "sidecar": Sidecar, "injector": Injector, "agent": Agent}
    for part, settings in programs.items():
        schema["definitions"][f"{part}Settings"] = {
            "type": "object",
            "additionalProperties": False,
            "properties": {field.name: _value(field) for field in dataclasses.fields(settings)},
        }
    target.write_text(json.dumps(schema, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _value(field: dataclasses.Field[object]) -> dict[str, object]:
    kinds = "boolean" if field.metadata["switch"] else ["string", "number"]
    return {"type": kinds, "description": field.metadata["help"]}


if __name__ == "__main__":
    main(sys.argv[1:])
