"""Settings of the collector.

collector   all of them
deploys
comparison
types       how values are parsed
engine_url  the address of ClickHouse
"""
