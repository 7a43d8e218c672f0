"""Stage 1 in ClickHouse.

stage1
sql                the statement
clickhouse_client  HTTP
"""
