"""`sidelight compare`: compare two sides on a collector, or two files.

command
settings
compare_client      fetches a verdict from the collector
polling             waits until there is enough data
files               reads recordings
inputs              formats of recordings
sample_counts
recording_checks
sampling_noise      statistics of two recordings
recording_pair      two recordings
recording_culprits  functions where the change between two recordings starts
local_comparison    compares two recordings
comparison_model    the verdict as values
reports             text, Markdown, JSON, JUnit
exit_codes
"""
