"""YAML in which each key of a mapping is unique."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml


class _UniqueKeyLoader(yaml.SafeLoader):
    """Refuses a mapping with a repeated key, of which YAML would keep the last."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        if isinstance(node, yaml.MappingNode):
            keys = [self.construct_object(key, deep=True) for key, _ in node.value]
            for at, key in enumerate(keys):
                if key in keys[:at]:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key!r} is repeated", node.value[at][0].start_mark
                    )
        return super().construct_mapping(node, deep)


def load_yaml(text: str) -> Any:
    """Load a document. Raises ValueError if it is not YAML, or if it repeats a key."""
    try:
        return yaml.load(text, _UniqueKeyLoader)  # noqa: S506  # a SafeLoader
    except (yaml.YAMLError, RecursionError, TypeError) as error:
        raise ValueError(f"it is not YAML: {' '.join(str(error).split())[:300]}") from None
