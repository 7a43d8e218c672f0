"""Answers on profile files that a reader sends: nothing is stored.

sent_file       a file
file_tree       the call tree of one file
file_answers    the flame graph of one file, and the comparison of two
reader_process  reads files in a process of its own, within memory and time
"""
