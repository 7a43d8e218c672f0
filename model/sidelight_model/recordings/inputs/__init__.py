"""Formats of recordings.

sample_weights    weights as numbers of samples, and folded stacks
speedscope_input
austin_input
timeline_input    Chrome traces and gecko profiles
pprof_input
"""
