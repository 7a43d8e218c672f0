"""The HTTP application.

app           the application and its health checks
request_body  receives JSON bodies within limits
api           the query API
ui            the files of the web UI
short_links   short links to pages
"""
