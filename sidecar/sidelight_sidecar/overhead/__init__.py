"""The overhead budget.

budget         rates that fit it
governor       measures usage and sets rates
pause_control  pauses all sampling
"""
