"""What a comparison says, and how sure it is of it: statistics, and the words for them.

Pure: no I/O and no clock, and of the house nothing but `sidelight_model`. numpy is imported by the modules
that count and not here, so that `conditions` works where numpy is not installed.
"""
