"""Discovery of processes on this machine, from /proc.

bounded_file         reads files that a target may have put there
processes            decides which processes are sampled
process_description  a process without its arguments
procfs               reads processes
listening_ports
cgroup               the CPU limit, and memory of containers
pod_cgroup           the pod and container in a process's cgroup path
"""
