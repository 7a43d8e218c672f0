"""Captures on demand.

captures         captures requested on the sidecar's own port
capture_poller   polls the collector for capture jobs
remote_capture   runs one capture job
capture_tasks    what a program runs for that
agent_status     the status that the sidecar reports to the collector
trigger_monitor  evaluates triggers and starts boosts
"""
