"""Stage 1 in ClickHouse.

sql                builds the statements, and the URL of the objects
clickhouse_client  sends them over HTTP
"""
