"""The query engine.

query_engine  runs queries in threads, within limits
window_sums   stage 1: sums by stack hash
stack_text    stage 2: the stacks' frames
stack_endpoints  the stacks' endpoints
window_cells  stage 1 by cells of windows
"""
