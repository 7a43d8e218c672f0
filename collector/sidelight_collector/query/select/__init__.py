"""Selecting windows.

window_query  the windows of a side, each once
matchers
pod_time      pod-seconds
local_time    hours of a time zone
"""
