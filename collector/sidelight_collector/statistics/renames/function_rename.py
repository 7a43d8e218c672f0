"""A function under its old and its new name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class RenameReason(StrEnum):
    """The evidence that two functions are the same."""

    SAME_PLACE = "same callers, same place in the file"
    SAME_CALLEES = "same callers, same callees"
    OTHER_FILE = "same name and callers, other file"


@dataclass(frozen=True, slots=True)
class FunctionRename:
    """A function under its old and its new name.

    `old` and `new` are frames (escaped, without lines). `score` is the confidence, from 0 to 1.
    """

    old: str
    new: str
    score: float
    reason: RenameReason


def compute_canonical_ids(names: Sequence[str], function_renames: Sequence[FunctionRename]) -> list[int]:
    """Return the id of each name, with the id of the new name for an old name."""
    ids = {text: code for code, text in enumerate(names)}
    new_ids = {
        rename.old: ids[rename.new] for rename in function_renames if rename.old in ids and rename.new in ids
    }
    return [new_ids.get(text, code) for code, text in enumerate(names)]
