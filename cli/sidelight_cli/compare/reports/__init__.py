"""Reports of a comparison.

text_report
markdown
json_report
junit
formatting   numbers and phrases that the reports share
"""
