"""The HTTP application.

app          the application and its health checks
api          the query API
ui           the files of the web UI
short_links  short links to pages
"""
