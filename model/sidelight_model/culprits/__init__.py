"""Functions where a change starts.

changed_tree    the call tree of a change
culprit_search  the functions where it starts
culprit_row     such a function as JSON

Which functions and call paths changed is known before: the collector tests them on many pods, and
`sidelight compare` on two files.
"""
