"""`sidelight demo`: four services under equal load, each with a sidecar, compared.

command
settings
install            for `make demo`
versions           the four services
demo_run           one run, step by step
processes          child processes and load
collector_answers  read from the API
measurement        of one service
published_story    what the numbers say about it
demo_table
demo_report        JSON
demo_screen
"""
