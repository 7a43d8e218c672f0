"""Clients of external systems.

external_stage1  stage 1 in an engine: runs the statements, checks the sums, and falls back
clickhouse       the statements and the client of ClickHouse
trino            the statements and the client of Trino
sum_statements   what the engines share
prometheus       request counts
"""
