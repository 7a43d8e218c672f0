"""The demo: four small services under one load, each with a sidecar, compared by what the collector says.

`versions` names the services, `load` asks them at a constant rate, `children` starts and ends processes,
`run` puts them together; `answers` reads the collector's API, `story` says what the numbers mean,
`table` and `report` write them down.
"""
