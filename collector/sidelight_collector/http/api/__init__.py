"""The query API: requests to paths below /api/v1.

routes        a handler for each path
export_routes  exported files
file_routes    files that a reader sends
endpoint_routes  endpoints by cost
api_handler    what handlers share
parameters    parsing of query parameters
responses     JSON, ETag, compression
answer_cache  the cache of responses
sides_cache   the cache of chosen sides
exports       headers of exported files
openapi       the OpenAPI document
"""
