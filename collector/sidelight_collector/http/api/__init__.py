"""The query API: GET paths under /api/v1.

routes
parameters    parsed
responses     JSON, ETag, compression
answer_cache
exports       files
openapi       the document
"""
