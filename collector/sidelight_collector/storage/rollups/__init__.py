"""Windows rolled up without their stacks.

hourly_rollup  by the hour and by their labels
step_rollup    by steps of ten minutes, for all pods together
pod_time       pod-seconds
"""
