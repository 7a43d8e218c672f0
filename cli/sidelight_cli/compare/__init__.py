"""`sidelight compare`: compare two sides on a collector, or two files.

command
settings
compare_client      fetches a verdict from the collector
polling             waits until there is enough data
files               reads recordings
comparison_model    the verdict as values
reports             text, Markdown, JSON, JUnit
exit_codes
"""
