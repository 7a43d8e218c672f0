"""The overhead budget.

budget         computes rates that fit the budget
governor       measures usage and sets rates
pause_control  pauses all sampling
"""
