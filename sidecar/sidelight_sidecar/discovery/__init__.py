"""Discovery of processes on this machine, from /proc.

processes            decides which processes are sampled
process_description  a process without its arguments
procfs               reads processes
listening_ports
cgroup               the CPU limit
"""
