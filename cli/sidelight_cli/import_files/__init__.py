"""`sidelight import`: send profile files of any tool to a collector.

command          the command
push_body        profiles as a push of Pyroscope's protocol
imported_profile  the stacks of a file, in time
settings         the settings
"""
