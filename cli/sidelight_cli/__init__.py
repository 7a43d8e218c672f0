"""The command-line interface for people and pipelines.

local            `sidelight record` and `sidelight top`
compare          `sidelight compare`
import_files     `sidelight import`
capture_command  `sidelight capture`
export_command   `sidelight export`
notes_command    `sidelight notes`
query_command    `sidelight query`
demo             `sidelight demo`
collector_api    client of the collector's HTTP API, with:
api_transport    its requests
collector_errors
                 why a request failed
download         writes profiles to files
"""
