"""Queries: from a selector and a range to summed stacks.

windows           the question, and the windows that were selected
select            selects them
engine            sums their stacks (stage 1) and reads their text (stage 2)
engines           other engines: ClickHouse; Prometheus for request counts
query_context     what one query reads
query_cache       tables in memory
query_limits
query_errors
request_counts    the interface of what counts requests
stack_filter      which stacks are looked at
stack_paths       their frames as columns
call_tree         the tree that is drawn
data_basis        the data an answer rests on
sampling_quality  how it was sampled
"""
