"""Recordings in files: their samples, and the comparison of two.

inputs              formats of recordings, as samples
recording_file      reads the samples of a file
imported_profile    the stacks of a file, in time
sample_counts       the samples of a recording by function
sampling_noise      statistics of two recordings
recording_pair      two recordings
recording_checks    checks that two recordings are comparable
recording_culprits  functions where the change between two recordings starts
local_comparison    compares two recordings
"""
