"""Sidelight: continuous production profiling for Python services.

main            the console script; commands are entry points of the installed distributions
settings        settings as dataclass fields, flags and environment variables
logs            structured logs, as text or JSON
loop_watchdog   logs the stacks of a process whose event loop stands still
waiting         for an event, with a timeout
request_origin  refuses requests that a browser sends for a page of another site
"""

__version__ = "0.1.0"
