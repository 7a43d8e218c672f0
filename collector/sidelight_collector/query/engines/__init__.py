"""Other systems that are asked.

clickhouse  stage 1 in ClickHouse
prometheus  request counts
"""
