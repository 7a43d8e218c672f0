"""Workloads, pods and rollouts from the Kubernetes API.

k8s_objects      parses the fields of objects that are used
informers        reflectors of all kinds
cluster_cache    the objects known so far
coverage_status  which pods are profiled, and why others are not
rollouts         when revisions were rolled out
shared_state     one collector watches, the others read from the store
watcher          the loop, and what the rest of the collector reads
routes           HTTP handlers
"""
