"""Functions that only changed their name or file.

unmatched_functions  functions that only one side has
function_rename      a function under its old and its new name
function_profiles    callers, callees and lines of a function
line_index           its place among the unchanged functions of its file
unmatched_profiles   what two functions have in common
function_matching    which pairs are the same function

There is no standard method for this. The evidence is that of origin analysis (Godfrey and Zou, IEEE
Transactions on Software Engineering 31, 2005): names, callers and callees, and the possibility that a
function was split or merged.
"""
