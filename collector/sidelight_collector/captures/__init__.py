"""Captures on demand.

capture              the state of one
capture_requests     what people and sidecars send
routes               the paths
coordinator          gives jobs to sidecars and follows them
poll_response        what a poll is answered
agents               the sidecars that poll
agent_polls          their long polls
capture_repository   captures in the store
capture_codec        as JSON
visibility           who may see which
capture_events       progress as server-sent events
queryable_windows    whether results can be queried
attacher             attaches a sidecar to a pod without one
ephemeral_container  what it attaches
one_time_tokens
recordings           timeline recordings
"""
