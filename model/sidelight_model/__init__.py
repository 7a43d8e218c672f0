"""The data model: pure code on the standard library, without I/O or a clock.

errors          the reason words and the base class of errors
counts          samples by state; profile types
frames          one call: function, file, line
folded          folded stacks as text
labels          labels and their limits
regular_expressions  patterns in the syntax of RE2, in linear time
selectors       Prometheus matchers
window          the stacks of one process over a few seconds
capture_protocol  messages between a sidecar and the collector's captures
profile         stacks with weights
tree            call trees of one profile or two
aggregate       top functions and depths
packages        the package of a file
endpoints       the handler of a request, found in the stack
change          the difference of two sides
culprits        functions where a change starts
gates           conditions of `sidelight compare --fail-on`
terminal_width  names made safe for a terminal
export_formats  profiles as files of other tools
import_formats  profiles that other tools wrote
recordings      recordings in files, and the comparison of two
"""
