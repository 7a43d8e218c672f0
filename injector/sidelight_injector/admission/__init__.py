"""What becomes of a pod.

review        admission reviews
decide        the decision
recipe        the container
ports         its port
namespaces    what applies to a pod in its namespace
limits        LimitRanges and ResourceQuotas
pod_security
skip_reasons
"""
