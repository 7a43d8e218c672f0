"""`sidelight demo`: profile and compare four services under equal load.

command
settings
install            installs dependencies for `make demo`
versions           the four services
demo_run           one run, step by step
processes          child processes and load
collector_answers  responses of the collector's API
measurement        the measurements of one service
published_story    compares the measurements with the published story
demo_table
demo_report        the JSON report
demo_screen
"""
