"""Processes on this machine, read from /proc.

processes        which processes are sampled
procfs           reads them
listening_ports
cgroup           the CPU limit
"""
