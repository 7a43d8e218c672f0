"""Settings of the collector.

collector   all of them
deploys
comparison
kubernetes  identities from a cluster, discovery, attached sidecars
types       how values are parsed
engine_url  the address of ClickHouse
"""
