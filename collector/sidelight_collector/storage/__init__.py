"""Storage of windows as Parquet tables in an object store.

objects        the interface of an object store
backends       its implementations
documents      JSON that several collectors change
tables         the tables and their columns
row_groups     reading parts of large tables
segments       written by ingest
blocks         written by compaction
service_cuts   where blocks of many services are cut
day_rollup     one set of sums for several blocks of a closed day
rollups        windows rolled up by hour and by step
manifest       the blocks of a day
window_ids     the time in window ids, and where to look for duplicates
live_objects   the segments and blocks that queries read
lease          assigns work to one collector at a time
pins           protect windows from retention
checksum       the checksum inside each Parquet file
trino_ddl      statements that make the objects tables of Trino
lifecycle      compaction and retention
"""
