"""Workloads, pods and rollouts from the Kubernetes API.

k8s_objects      the parts of objects that are used
reflector        list and watch
informers        of all kinds
cluster_cache    what is known of the cluster
coverage_status  which pods are profiled, and why others are not
rollouts
shared_state     one collector watches, the others read
watcher          the loop
routes
"""
