"""Shipping: windows on disk until the collector acknowledges them.

spool
atomic_file       files that survive a crash
merge             merges windows that wait
ship              sends windows
collector_client  HTTP requests
ingest_response   the collector's response to a batch
quarantine        files that cannot be sent
"""
