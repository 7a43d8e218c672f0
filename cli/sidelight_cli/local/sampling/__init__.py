"""Sampling in the command's own process.

target           attaches to a pid or a program
process_set      sessions on a process and its descendants
process_tree     finds and names descendants
sampling_engine  the native extension
quality          how well a process was sampled
record_errors    why a process cannot be sampled
"""
