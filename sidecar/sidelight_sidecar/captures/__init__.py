"""Captures on demand.

captures         started at the sidecar's own port
capture_poller   asks the collector for jobs
remote_capture   runs one
agent_status     what the sidecar reports of itself
trigger_monitor  evaluates triggers and starts boosts
"""
