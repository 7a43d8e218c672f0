"""Sampling in the command's own process.

target           from a pid or a program
process_set      sessions on a process and its children
process_tree
sampling_engine  the extension
quality          how well it was sampled
record_errors    why a process cannot be sampled
"""
