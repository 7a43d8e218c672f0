"""Queries of Grafana and other clients of Pyroscope.

querier_routes     the methods of `querier.v1.QuerierService`
render_routes      `/pyroscope/render`, `/pyroscope/render-diff` and `/pyroscope/label-values`
answers            answers of the query API as messages
flamebearer        a call tree as levels of bars
query_requests     the fields of requests
selector_mapping   Pyroscope's selectors as selectors of windows and profile types
connect_protocol   requests and responses of the Connect protocol
messages           the messages and their fields
message_codec      messages as Protocol Buffers and as JSON
"""
