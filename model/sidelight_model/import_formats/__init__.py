"""Profiles that other tools wrote, for comparisons of files and for ingest.

protobuf_wire       the encoding of pprof profiles
pprof_profile       pprof profiles
weighted_stack      a stack with a weight in any unit
speedscope_profile  speedscope JSON, sampled and evented
folded_input        folded text, with comments, ids and other forms of frames
trace_events        Chrome's trace event JSON
gecko_profile       profiles of the Firefox Profiler
perf_script         text of `perf script`
file_format         which format a file has
austin_mojo         Austin's binary format, as lines of its text format
"""
