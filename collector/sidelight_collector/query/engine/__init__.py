"""The query engine.

query_engine  runs queries in threads, within limits
window_sums   stage 1: sums by stack hash
stack_text    stage 2: the stacks' frames
stack_endpoints  the stacks' endpoints
stack_packages   the packages that stacks end in
window_cells  stage 1 by cells of windows
"""
