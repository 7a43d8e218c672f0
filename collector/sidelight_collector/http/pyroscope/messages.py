"""The messages of `querier.v1.QuerierService` and their fields.

The numbers are those of Pyroscope's API 1.6.0 (`querier/v1/querier.proto`, `types/v1/types.proto` and
`google/v1/profile.proto`).
"""

from __future__ import annotations

from typing import Final

from sidelight_collector.http.pyroscope.message_codec import Field, Kind, Schema


def _list(name: str, schema: Schema) -> Field:
    return Field(name, Kind.MESSAGE, is_repeated=True, schema=schema)


def _texts(name: str) -> Field:
    return Field(name, is_repeated=True)


def _integer(name: str) -> Field:
    return Field(name, Kind.INTEGER)


PROFILE_FORMATS: Final = tuple(
    f"PROFILE_FORMAT_{name}" for name in ("UNSPECIFIED", "FLAMEGRAPH", "TREE", "DOT", "PPROF")
)
AGGREGATIONS: Final = ("TIME_SERIES_AGGREGATION_TYPE_SUM", "TIME_SERIES_AGGREGATION_TYPE_AVERAGE")

_LOCATION: Final[Schema] = {1: Field("name")}
_STACK_TRACE_SELECTOR: Final[Schema] = {
    1: _list("call_site", _LOCATION),
    2: Field("go_pgo", Kind.MESSAGE, schema={}),
}
_SELECT_FIELDS: Final[Schema] = {
    1: Field("profile_typeID"),
    2: Field("label_selector"),
    3: _integer("start"),
    4: _integer("end"),
}

# Requests
RANGE_REQUEST: Final[Schema] = {1: _integer("start"), 2: _integer("end")}
LABEL_NAMES_REQUEST: Final[Schema] = {1: _texts("matchers"), 2: _integer("start"), 3: _integer("end")}
LABEL_VALUES_REQUEST: Final[Schema] = {
    1: Field("name"),
    2: _texts("matchers"),
    3: _integer("start"),
    4: _integer("end"),
}
SERIES_REQUEST: Final[Schema] = {
    1: _texts("matchers"),
    2: _texts("label_names"),
    3: _integer("start"),
    4: _integer("end"),
}
SELECT_SERIES_REQUEST: Final[Schema] = {
    **_SELECT_FIELDS,
    5: _texts("group_by"),
    6: Field("step", Kind.DOUBLE),
    7: Field("aggregation", Kind.ENUM, names=AGGREGATIONS),
    8: Field("stack_trace_selector", Kind.MESSAGE, schema=_STACK_TRACE_SELECTOR),
    9: _integer("limit"),
}
SELECT_STACKTRACES_REQUEST: Final[Schema] = {
    **_SELECT_FIELDS,
    5: _integer("max_nodes"),
    6: Field("format", Kind.ENUM, names=PROFILE_FORMATS),
    7: Field("stack_trace_selector", Kind.MESSAGE, schema=_STACK_TRACE_SELECTOR),
    8: _texts("profile_id_selector"),
    10: _texts("trace_id_selector"),
    11: _texts("span_selector"),
}
SELECT_PROFILE_REQUEST: Final[Schema] = {
    **_SELECT_FIELDS,
    5: _integer("max_nodes"),
    6: Field("stack_trace_selector", Kind.MESSAGE, schema=_STACK_TRACE_SELECTOR),
    7: _texts("profile_id_selector"),
    8: _texts("trace_id_selector"),
}
DIFF_REQUEST: Final[Schema] = {
    1: Field("left", Kind.MESSAGE, schema=SELECT_STACKTRACES_REQUEST),
    2: Field("right", Kind.MESSAGE, schema=SELECT_STACKTRACES_REQUEST),
}
EMPTY: Final[Schema] = {}

# Responses
_PROFILE_TYPE: Final[Schema] = {
    1: Field("ID"),
    2: Field("name"),
    4: Field("sample_type"),
    5: Field("sample_unit"),
    6: Field("period_type"),
    7: Field("period_unit"),
}
_LABEL_PAIR: Final[Schema] = {1: Field("name"), 2: Field("value")}
_POINT: Final[Schema] = {1: Field("value", Kind.DOUBLE), 2: _integer("timestamp")}
_LEVEL: Final[Schema] = {1: Field("values", Kind.INTEGER, is_repeated=True)}
_FLAME_GRAPH: Final[Schema] = {
    1: _texts("names"),
    2: _list("levels", _LEVEL),
    3: _integer("total"),
    4: _integer("max_self"),
}
_FLAME_GRAPH_DIFF: Final[Schema] = {**_FLAME_GRAPH, 5: _integer("leftTicks"), 6: _integer("rightTicks")}

PROFILE_TYPES_RESPONSE: Final[Schema] = {1: _list("profile_types", _PROFILE_TYPE)}
NAMES_RESPONSE: Final[Schema] = {1: _texts("names")}
SERIES_RESPONSE: Final[Schema] = {2: _list("labels_set", {1: _list("labels", _LABEL_PAIR)})}
SELECT_SERIES_RESPONSE: Final[Schema] = {
    1: _list("series", {1: _list("labels", _LABEL_PAIR), 2: _list("points", _POINT)})
}
DIFF_RESPONSE: Final[Schema] = {1: Field("flamegraph", Kind.MESSAGE, schema=_FLAME_GRAPH_DIFF)}
PROFILE_STATS_RESPONSE: Final[Schema] = {
    1: Field("data_ingested", Kind.FLAG),
    2: _integer("oldest_profile_time"),
    3: _integer("newest_profile_time"),
}

# google.v1.Profile
_VALUE_TYPE: Final[Schema] = {1: _integer("type"), 2: _integer("unit")}
_LABEL: Final[Schema] = {
    number: _integer(name) for number, name in enumerate(("key", "str", "num", "num_unit"), 1)
}
_SAMPLE: Final[Schema] = {
    1: Field("location_id", Kind.INTEGER, is_repeated=True),
    2: Field("value", Kind.INTEGER, is_repeated=True),
    3: _list("label", _LABEL),
}
_MAPPING: Final[Schema] = {
    1: _integer("id"),
    5: _integer("filename"),
    7: Field("has_functions", Kind.FLAG),
    8: Field("has_filenames", Kind.FLAG),
    9: Field("has_line_numbers", Kind.FLAG),
}
_LINE: Final[Schema] = {1: _integer("function_id"), 2: _integer("line")}
_PROFILE_LOCATION: Final[Schema] = {1: _integer("id"), 2: _integer("mapping_id"), 4: _list("line", _LINE)}
_FUNCTION: Final[Schema] = {1: _integer("id"), 2: _integer("name"), 4: _integer("filename")}
PROFILE: Final[Schema] = {
    1: _list("sample_type", _VALUE_TYPE),
    2: _list("sample", _SAMPLE),
    3: _list("mapping", _MAPPING),
    4: _list("location", _PROFILE_LOCATION),
    5: _list("function", _FUNCTION),
    6: _texts("string_table"),
    9: _integer("time_nanos"),
    10: _integer("duration_nanos"),
    11: Field("period_type", Kind.MESSAGE, schema=_VALUE_TYPE),
    12: _integer("period"),
    13: Field("comment", Kind.INTEGER, is_repeated=True),
    14: _integer("default_sample_type"),
}
SELECT_STACKTRACES_RESPONSE: Final[Schema] = {
    1: Field("flamegraph", Kind.MESSAGE, schema=_FLAME_GRAPH),
    5: Field("pprof", Kind.MESSAGE, schema={1: Field("profile", Kind.MESSAGE, schema=PROFILE)}),
}
