"""Ingest of profiles from Pyroscope's clients, as windows.

pyroscope_handler   handles `/push.v1.PusherService/Push` and `/ingest`
upload_parsing      turns an upload to `/ingest` into windows
push_parsing        turns a push into windows
profile_windows     turns one profile into windows
multipart_form      the fields of a form
push_request        the messages of a push
upload_query        the query parameters of `/ingest`
profile_types       which values of a profile are time
series_labels       maps labels
profile_sums        sums the samples of a profile, natively or in Python
content_ids         window ids that are derived from content
sample_rounding     turns time into whole samples
"""
