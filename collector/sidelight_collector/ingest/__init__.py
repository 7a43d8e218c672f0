"""Ingest: receive, check and store windows (`POST /api/v1/windows`).

otlp            OpenTelemetry profiles
pyroscope       profiles from Pyroscope's clients
handler         handles a request
memory_budget   bounds the memory of all requests
parsing         parses windows and folded text
validation      checks a request against the limits
dedup           ids and digests of recent windows
batch           windows that become one segment
segment_writer  writes segments and acknowledges windows
stats           what was ingested, and by which sidecars
shared_stats    the same for several processes
"""
