"""The HTTP application.

app          the application and its health checks
request_body limits of JSON bodies
api          the query API
ui           the files of the web UI
short_links  short links to pages
"""
