"""Windows: the units that a sidecar ships.

window_builder      builds windows from a session's samples
window_writer       writes them into the spool
preroll             windows in memory for a later capture
timeline_recording  samples of a capture in time order
"""
