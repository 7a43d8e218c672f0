"""Samplers: read the stacks of a process for a duration, with their quality.

sampler           the interface
native_sampler    the Rust extension
pyspy_command     the py-spy command
pyspy_output      parses its output
sampler_registry  the samplers of this machine
schedule          when to sample
timed_samples     samples with timestamps
task_samples      asyncio tasks, as samples
guard             never leaves a target stopped
permissions       why a process cannot be read
attach_limiter    spreads attaches over time
malloc_tuning     one malloc arena
"""
