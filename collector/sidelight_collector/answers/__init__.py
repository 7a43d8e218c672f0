"""Responses of the query API.

flame              flame graph of one side or two
export             a profile as a file
top_and_depth      functions by cost; stack depths
stack_composition  packages, recursion, the deepest stacks
lines              the lines of one function
timeline           rates over time
heatmap            rates by row and time
grouped_series     time series by labels
catalog            services, versions, labels, values
service_overview   all services in columns
endpoints          endpoints by cost
usage              windows of each service
last_seen          pods and services
sidecar_health     sidecars of each service
"""
