"""The sides of a comparison that a request leaves to the collector.

default_sides    selectors and times of both sides
version_choice   the newest version, and the version before it
range_choice     times to compare, from the times when both sides were observed
range_statement  the chosen or given times in one sentence, and alternatives
"""
