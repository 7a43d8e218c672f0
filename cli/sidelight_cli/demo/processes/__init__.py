"""Child processes of the demo.

programs        command lines
child_process
process_group   starts and stops child processes together
load_generator  constant-rate load
latency
"""
