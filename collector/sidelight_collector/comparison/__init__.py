"""The comparison of two sides.

request           options of a comparison
answer            the response of /api/v1/verdict
matrix            observations: pods by blocks of time
cost_tables       costs of functions and call paths
pod_sampling      how each pod was sampled
inputs            the stacks, and loaders of more
side_comparison   two sides, and the effects between them
builder           functions, nodes, conditions and summary
function_tests    the tests of all functions together
effects           effects of many functions, and how they were tested
culprit_rows      functions where a change starts
rename_matching   functions that changed their name
blocking_summary  functions that block the event loop
model             types of the response
"""
