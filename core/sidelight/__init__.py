"""Sidelight: continuous production profiling for Python services.

main      the console script; commands are entry points of the installed distributions
settings  a setting is a dataclass field, a flag and an environment variable
logs      structured logs, as text or JSON
"""

__version__ = "0.1.0"
