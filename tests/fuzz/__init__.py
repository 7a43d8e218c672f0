"""Fuzzing of everything that a client, a file or a user can send: what `make fuzz` runs.

targets          the parsers, each with valid inputs and the checks of one input
json_targets     those of JSON: polls, requests and recordings
file_targets     those of files for `sidelight compare`
mutations        changes of inputs: bytes, tokens and JSON values
fuzzer           tries changed inputs, and keeps those with new outcomes
coverage_guided  the same targets under atheris, which follows the covered code
api_fuzzer       every parameter of the HTTP API, generated from its OpenAPI document by schemathesis
report           bounds on time and memory, failures and their files
"""
