"""Profiles that other tools wrote, for comparisons of files and for ingest.

protobuf_wire       the encoding of pprof profiles
pprof_profile       pprof profiles
weighted_stack      a stack with a weight in any unit
speedscope_profile  speedscope JSON, sampled and evented
folded_input        folded text, with comments, ids and other forms of frames
"""
