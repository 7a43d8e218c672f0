"""Admission of pods: the decision whether a pod gets a sidecar.

review        admission reviews
decide        the decision
recipe        the sidecar's container
ports         a free port for it
namespaces    the policies of a pod's namespace
limits        LimitRanges and ResourceQuotas
pod_security
skip_reasons
"""
