"""Functions that block event loops.

loop_frames       frames of event loops
loop_attribution  the function that blocks a loop, for each call path
stack_automaton   a finite automaton that reads stacks
loop_comparison   how long loops are blocked on two sides, and by which functions
"""
