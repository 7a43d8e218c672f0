"""`sidelight record` and `sidelight top`: sample a process on this machine.

record_command
top_command
settings
sampling         the sampler in the command's process
launch           a program that is started to be recorded
local_recording  what was recorded
formats          as a file
timeline_export  with times
output           where it goes
record_report    what is printed about it
top_table
screen           a terminal page
signals
"""
