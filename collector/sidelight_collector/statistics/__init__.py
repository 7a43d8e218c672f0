"""Statistics of comparisons: pure code over numpy arrays.

comparability  whether two sides can be compared
inference      effects, tests, intervals
attribution    where a change comes from
depths         of stacks
event_loop     blocking of event loops
renames        functions that only changed their name
summary_text   one sentence for a result
"""
