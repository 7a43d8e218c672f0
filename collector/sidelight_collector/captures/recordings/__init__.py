"""Timeline recordings of captures.

recording_files    kept and listed
recording_routes   the paths
subsecond_heatmap
loop_blocking      what blocked event loops
"""
