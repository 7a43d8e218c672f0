"""Ingest: POST /api/v1/windows.

handler         one request
memory_budget
parsing
validation
dedup           ids seen before
batch           windows that are written together
segment_writer  writes them and acknowledges
stats           what was ingested
shared_stats    by several processes
"""
