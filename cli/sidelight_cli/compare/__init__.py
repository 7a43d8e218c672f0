"""`sidelight compare`: compare two sides on a collector, or two files.

command
settings
compare_client    fetches a verdict from the collector
polling           waits until there is enough data
files             reads recordings
speedscope_input
austin_input
pprof_input
sample_weights    weights as numbers of samples
sample_counts
recording_checks
sampling_noise    statistics of two recordings
local_comparison  compares two recordings
comparison_model  the verdict as values
reports           text, Markdown, JSON, JUnit
exit_codes
"""
