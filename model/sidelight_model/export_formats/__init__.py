"""Profiles as files: pprof, speedscope, CSV, SVG and HTML.

pprof
speedscope
otlp_export  OpenTelemetry profiles
csv_export
svg          flame graph
svg_script   zoom and search in the flame graph
html_export  offline page
colours      the colour of a frame
provenance   the origin of an exported profile
protobuf_writer  the encoding of pprof profiles
"""
