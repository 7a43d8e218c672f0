"""The comparison of two sides.

request           what is asked
answer            the answer of /api/v1/verdict
matrix            observations: pods by blocks of time
cost_tables       of functions and call paths
builder           effects, tests, summary
effects           of many functions, and how they were tested
rename_matching   functions under another name
blocking_summary  who blocks the event loop
model             the answer's types
"""
