"""Sidelight: continuous production profiling for Python services.

main             the console script; commands are entry points of the installed distributions
settings         settings as dataclass fields, flags and environment variables
terminal_output  standard streams that show control characters as text
logs             structured logs, as text or JSON
loop_watchdog    logs the stacks of a process whose event loop stands still
file_output      files that are complete or absent
waiting          for an event, with a timeout
request_origin   refuses requests that a browser sends for a page of another site

The connections of a server:

connection_settings  their timeouts, as a part of a program's settings
connection_phases    decides which connections to close, and when
open_files           how many connections the limit of open files allows
connection_guard     follows each connection and closes it
connection_listener  accepts connections within the limit
server_tls           TLS of a server, with certificates that change
client_tls           the authorities that a client trusts
"""

__version__ = "0.1.0"
