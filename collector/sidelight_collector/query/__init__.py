"""Answers from stored windows: which windows count, their sums, and the sums made readable.

engine          where queries run: bounded threads, a bounded queue, a deadline
scan            stage 1, all that grows with the amount stored: sums by (service, stack hash)
frames          stage 2, bounded by unique stacks: hashes become frames
windows         which windows a question is about, each counted once
basis           the numbers every answer stands on
flame, tables, series, listing, export    one answer each
"""
