"""`sidelight doctor`: checks a store, and repairs it.

command
settings
checker        the whole check
layout         objects by day
object_reader
day_check      one day
store_checks   single checks
duplicates
gaps
machine        this machine
findings
repair
cost_estimate
doctor_report
"""
