"""Functions that block event loops.

loop_frames       frames of event loops
loop_attribution  the function that blocks a loop, for each call path
loop_comparison   how long loops are blocked on two sides, and by which functions
"""
