"""Answers of the query API.

flame              flame graph of one side or two
export             a profile as a file
top_and_depth      functions by cost; stack depths
stack_composition  packages, recursion, the deepest stacks
lines              of one function
timeline
heatmap
catalog            services, versions, labels, values
service_overview
usage              windows of each service
last_seen          pods and services
"""
