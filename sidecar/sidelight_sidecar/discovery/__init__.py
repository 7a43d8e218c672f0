"""Discovery of processes on this machine, from /proc.

processes        decides which processes are sampled
procfs           reads processes
listening_ports
cgroup           the CPU limit
"""
