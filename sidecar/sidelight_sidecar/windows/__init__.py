"""Windows: what is shipped.

windows             made of what a session sampled
window_writer       written into the spool
preroll             kept in memory for a capture
timeline_recording  samples of a capture in time order
"""
