"""Samplers: from a process and a duration to stack counts and their quality.

sampler           the interface
native_sampler    the Rust extension
pyspy_command     py-spy as a program
pyspy_output      its output
sampler_registry  the samplers of this machine
schedule          when to sample
timed_samples     samples with time stamps
guard             never leaves a target stopped
permissions       why a process cannot be read
attach_limiter    spreads attaches over time
malloc_tuning     one malloc arena
"""
