"""The HTTP application.

app          its routes and limits
api          the query API
ui           the pages' files
short_links
"""
