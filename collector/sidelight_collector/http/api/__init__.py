"""The query API: GET paths under /api/v1.

routes
export_routes  files
api_handler    what handlers share
parameters    parsed
responses     JSON, ETag, compression
answer_cache
exports       their headers
openapi       the document
"""
