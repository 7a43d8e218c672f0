"""Defects that could happen: each changes one line of the store, compaction, retention or queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_COLLECTOR: Final = "collector/sidelight_collector"
_SEGMENTS: Final = f"{_COLLECTOR}/storage/segments.py"
_OBJECTS: Final = f"{_COLLECTOR}/storage/objects.py"
_DOCUMENTS: Final = f"{_COLLECTOR}/storage/documents.py"
_BLOCKS: Final = f"{_COLLECTOR}/storage/blocks.py"
_COMPACTION: Final = f"{_COLLECTOR}/storage/lifecycle/compaction.py"
_RETENTION: Final = f"{_COLLECTOR}/storage/lifecycle/retention.py"
_SELECTION: Final = f"{_COLLECTOR}/query/select/window_query.py"
_SUMS: Final = f"{_COLLECTOR}/query/engine/window_sums.py"
_WRITER: Final = f"{_COLLECTOR}/ingest/segment_writer.py"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A changed line: `old`, which its file has exactly once, becomes `new`.

    `defect` is what the change does, in a few words.
    """

    name: str
    file: str
    old: str
    new: str
    defect: str


MUTANTS: Final = (
    Mutant(
        "acknowledge-failure",
        _WRITER,
        "        except StoreError as error:\n            outcome = error\n",
        "        except StoreError as error:\n            outcome = None\n",
        "windows are acknowledged although the store failed",
    ),
    Mutant(
        "commit-first",
        _OBJECTS,
        "    for key, content in contents.items():\n        store.put(key, content, if_absent",
        "    for key, content in reversed(contents.items()):\n        store.put(key, content, if_absent",
        "a segment is committed before its other tables are written",
    ),
    Mutant(
        "segment-range",
        _SEGMENTS,
        "{min(starts):013d}-{max(starts):013d}-{name}/",
        "{min(starts):013d}-{min(starts):013d}-{name}/",
        "the key of a segment names the first start only",
    ),
    Mutant(
        "range-start",
        _SEGMENTS,
        "(ref.max_start_ms + 1) * 10**6 > from_ns",
        "ref.max_start_ms * 10**6 > from_ns",
        "off by one at the start of a query's range",
    ),
    Mutant(
        "hour-edge",
        _SEGMENTS,
        "self.max_start_ms * 10**6 + 1, HOUR_NS)",
        "self.max_start_ms * 10**6, HOUR_NS)",
        "off by one at the edge of an hour",
    ),
    Mutant(
        "lost-update",
        _DOCUMENTS,
        "self._store.put(key, content, if_absent=etag is None, if_match=etag)",
        "self._store.put(key, content, if_absent=etag is None)",
        "a manifest is replaced without a condition",
    ),
    Mutant(
        "closed-day",
        _WRITER,
        "        if not takes_windows:\n",
        "        if takes_windows is None:\n",
        "windows of a day whose ids retention dropped are taken again",
    ),
    Mutant(
        "merge-dedup",
        _BLOCKS,
        'sort_table(drop_duplicates(profiles, ["wid"]), ',
        'sort_table(drop_duplicates(profiles, ["wid", "input"]), ',
        "a merge keeps a window that was sent twice",
    ),
    Mutant(
        "merge-samples",
        _BLOCKS,
        "is_current = is_equal(input_ids.take(window_rows), at)",
        "is_current = is_equal(input_ids.take(window_rows), input_ids.take(window_rows))",
        "a merge adds up the samples of a window that was sent twice",
    ),
    Mutant(
        "block-dedup",
        _COMPACTION,
        "return pa.concat_arrays(list(self._window_ids.values())) if self._window_ids else None",
        "return None",
        "compaction keeps windows that another block has",
    ),
    Mutant(
        "no-tombstones",
        _COMPACTION,
        "tombstones=current.tombstones | input_prefixes,\n",
        "tombstones=current.tombstones,\n",
        "merged segments get no tombstone",
    ),
    Mutant(
        "delete-before-commit",
        _COMPACTION,
        "        committed = manifest.commit(self._store, day_inputs.day, day_inputs.version, merged)\n",
        "        list(map(self._delete_objects, input_prefixes))"
        "; committed = manifest.commit(self._store, day_inputs.day, day_inputs.version, merged)\n",
        "inputs are deleted before the manifest is written",
    ),
    Mutant(
        "deletion-delay",
        _COMPACTION,
        'self._select_aged(day, "gone", tombstones, self._policy.deletion_delay_seconds)',
        'self._select_aged(day, "gone", tombstones, 0.0)',
        "replaced objects are deleted while queries read them",
    ),
    Mutant(
        "orphan-age",
        _COMPACTION,
        'self._select_aged(day, "stray", orphans, self._policy.orphan_age_seconds)',
        'self._select_aged(day, "stray", orphans, 0.0)',
        "a block that is not committed yet is deleted as an orphan",
    ),
    Mutant(
        "expired-day",
        _RETENTION,
        "timedelta(days=days + 1)",
        "timedelta(days=days)",
        "retention takes a day too early",
    ),
    Mutant(
        "downsample-parts",
        _RETENTION,
        "parts = block.ref.parts - reduced[0].ref.parts if reduced else ()",
        "parts = block.ref.parts if reduced else ()",
        "retention deletes tables that the block still needs",
    ),
    Mutant(
        "label-filter",
        _SELECTION,
        "        selected = filter_by_selector(table, selector)\n        return selected, selected\n",
        "        selected = table\n        return selected, selected\n",
        "the selector is dropped from queries without a thread",
    ),
    Mutant(
        "query-dedup",
        _SELECTION,
        "        if len(tables) > 1:\n",
        "        if len(tables) > 2:\n",
        "a query counts a window of two segments twice",
    ),
    Mutant(
        "partial-hours",
        _SELECTION,
        "(side.from_ns, side.until_ns) if bound % HOUR_NS}",
        "(side.from_ns, side.until_ns) if not bound % HOUR_NS}",
        "a query counts a whole hour of which it covers a part",
    ),
    Mutant(
        "partial-days",
        _SUMS,
        "if count == hour_counts[day]]",
        "if count <= hour_counts[day]]",
        "a query counts a whole day of which it covers a part",
    ),
)
