"""On-demand captures.

capture              the state of a capture, as pure functions
capture_requests     parses the requests of users and sidecars
routes               HTTP handlers
coordinator          assigns capture jobs to sidecars and tracks them
capture_writers      which pods may write the windows of a capture
capture_slots        which captures may start
poll_response        the response to a poll
agents               the sidecars that poll
agent_exchange       the sidecars of other processes
agent_polls          their long polls
capture_repository   captures in the object store
capture_codec        captures as JSON
visibility           which captures a reader may see
capture_events       progress as server-sent events
queryable_windows    counts the windows that a query finds
attach               attaches a sidecar to a pod without one
recordings           timeline recordings
"""
