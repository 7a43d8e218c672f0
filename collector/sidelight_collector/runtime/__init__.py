"""Processes of the collector.

supervisor   starts workers and restarts them
worker       what each is given
http_server
loop_lag     how late the event loop is
"""
