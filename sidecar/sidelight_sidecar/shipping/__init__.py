"""Shipping: windows on disk until the collector acknowledges them.

spool
atomic_file
merge             of windows that wait
ship              sends them
collector_client  HTTP requests
ingest_response   what an answer means
quarantine        what cannot be sent
"""
