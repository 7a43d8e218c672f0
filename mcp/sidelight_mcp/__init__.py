"""Tools for coding agents over the Model Context Protocol (MCP).

Modules in reading order:

- `api`: what the tools need of the collector's API
- `tool_context`: the API client of a call, and its errors
- `selection`: the parameters that select profiles, and the query they stand for
- `answer_text`: numbers with their units, and the data behind an answer
- `text_tree`: a flame graph as text
- `profile_tools`, `comparison_tools`, `capture_tools`: the tools
- `tool_server`: the server with all tools, and the stdio transport
- `http_transport`: the streamable HTTP transport for a host that is no ASGI server
"""
