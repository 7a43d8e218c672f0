"""Child processes of the demo.

programs        their command lines
child_process
process_group   ends together
load_generator  constant-rate load
latency
"""
