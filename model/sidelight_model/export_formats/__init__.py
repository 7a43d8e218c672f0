"""Profiles as files: pprof, speedscope, CSV, SVG and HTML.

pprof
speedscope
csv_export
svg          the picture
svg_script   zoom and search in it
html_export  the offline page
colours      the colour of a frame
provenance   what the numbers of a file stand on
"""
