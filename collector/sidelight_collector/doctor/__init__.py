"""`sidelight doctor`, which checks and repairs a store.

command        the command line
settings       its options
checker        checks the whole store
layout         lists the objects by day
object_reader  reads the tables of a segment or block
day_check      checks one day
store_checks   checks one segment or block
duplicates     finds windows stored more than once
gaps           finds hours without windows
machine        checks the installation on this machine
findings       what checks report
repair         repairs a day
cost_estimate  estimates the costs of services
doctor_report  the report as text and JSON
"""
