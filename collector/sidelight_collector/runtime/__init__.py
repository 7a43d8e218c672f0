"""The processes of the collector.

supervisor   starts and restarts worker processes
heartbeat    finds workers that hang
stack_dump   the stacks of a worker that hangs
worker       the workers of a collector and their shared resources
file_reload  files that are loaded again when they change
certificate_reload
             the certificate that it serves with
http_server  listening sockets and the log of the HTTP server
loop_lag     measures the lag of the event loop
"""
