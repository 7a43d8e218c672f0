"""Storage: tables in an object store.

objects        the interface of an object store
backends       its implementations
documents      JSON that several collectors change
tables         the columns
segments       written by ingest
blocks         made by compaction
hourly_rollup
manifest       the blocks of a day
live_objects   what counts now
lease          one collector works on a day
pins           kept whatever its age
checksum
lifecycle      compaction and retention
"""
