"""Clients of external systems.

clickhouse  stage 1 in ClickHouse
prometheus  request counts
"""
