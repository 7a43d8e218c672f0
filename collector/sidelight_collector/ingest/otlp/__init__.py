"""Ingest of OpenTelemetry profiles (OTLP over HTTP and gRPC), as windows.

otlp_grpc        serves calls over gRPC, if the extra `grpc` is installed
otlp_handler     handles `/v1development/profiles`
otlp_parsing     turns a request into windows
otlp_json        turns a request in JSON into Protocol Buffers
otlp_attributes  the attributes of resources and samples
otlp_dictionary  the tables of a request, and pprof profiles made of them
"""
