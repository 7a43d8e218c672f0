"""`sidelight record` and `sidelight top`: sample a process on this machine.

record_command
top_command
settings
sampling         the sampler in the command's process
launch           starts a program to be recorded
local_recording  the samples of a recording
formats          a recording as a file
timeline_export  samples in time order
output           where a recording is written
record_report    terminal output about a recording
top_table
screen           full-screen terminal output
signals
"""
