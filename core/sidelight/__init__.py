"""Sidelight: continuous production profiling for Python services."""

__version__ = "0.1.0"
