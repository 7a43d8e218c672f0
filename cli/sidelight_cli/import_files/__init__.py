"""`sidelight import`: send profile files of any tool to a collector.

command          the command
push_body        profiles as a push of Pyroscope's protocol
profile_file  reads the file of a profile
settings         the settings
"""
