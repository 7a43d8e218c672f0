"""Programs that run clients of Pyroscope, in their versions and languages."""
