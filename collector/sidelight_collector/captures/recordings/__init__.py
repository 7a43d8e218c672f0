"""Timeline recordings of captures.

recording_files    parses, stores and exports recordings
recording_routes   HTTP handlers
subsecond_heatmap  sub-second heat map, and flame graph of a time span
loop_blocking      functions that blocked event loops
"""
