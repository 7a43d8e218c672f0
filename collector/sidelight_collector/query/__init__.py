"""Queries: from a selector and a time range to summed stacks.

windows           a query for windows, and its result
select            select windows by labels and time
engine            sum stacks (stage 1) and read their frames (stage 2)
engines           external systems: ClickHouse or Trino for stage 1, Prometheus for request counts
query_context     the segments that one query reads
query_cache       decoded tables and manifests in memory
shared_calls      calls that concurrent queries share
query_limits
query_errors
request_counts    the interface of a source of request counts
stack_filter      restrict a query to some of the stacks
stack_paths       packages, recursion and call paths of stacks
window_parts      the samples of windows by endpoint or package
call_tree         call trees and costs of functions
data_basis        the data that a response rests on
sampling_quality  how well it was sampled
"""
