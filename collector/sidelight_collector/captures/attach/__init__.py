"""Captures of pods without a sidecar.

attacher             attaches a sidecar to a pod for the time of a capture
ephemeral_container  the container that is attached
one_time_tokens      tokens of attached sidecars
"""
