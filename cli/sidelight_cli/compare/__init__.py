"""`sidelight compare`: two sides of a collector, or two files.

command
settings
compare_client    asks the collector
polling           until there is enough data
files             two recordings
speedscope_input
sample_counts
sampling_noise    statistics of two recordings
local_comparison  compares them
comparison_model  the result
reports           text, Markdown, JSON, JUnit
exit_codes
"""
