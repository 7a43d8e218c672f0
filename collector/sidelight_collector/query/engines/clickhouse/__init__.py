"""Stage 1 in ClickHouse.

stage1             runs the statements, checks the sums, and falls back
sql                builds the statements
clickhouse_client  sends them over HTTP
"""
