"""Stage 1 in Trino.

trino_sql     builds the statements
trino_client  sends them with the package `trino`
"""
