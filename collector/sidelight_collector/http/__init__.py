"""The HTTP application.

app           the application and its health checks
request_body  receives JSON bodies within limits
api           the query API
pyroscope     queries of Grafana and other clients of Pyroscope
ui            the files of the web UI
short_links   short links to pages
"""
