"""Statistics of comparisons: pure code over numpy arrays.

preorder              trees as arrays
basis                 rates, costs per request or shares of the profile
remedies              what a user can do about a check
comparability         checks of whether two sides can be compared
inference             effects, tests and intervals
depths                stack depths
event_loop            functions that block event loops
renames               functions that only changed their name or file
required_sample_text  the sample size that is lacking, in words
summary_text          a result in one sentence
"""
