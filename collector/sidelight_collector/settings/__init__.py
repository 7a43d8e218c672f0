"""Settings of the collector.

collector      all settings, composed of these:
workers        supervision of worker processes
listener       TLS, and access without a token
client_limits  limits of connections, hosts, headers, polls and recordings
pyroscope      ingest from Pyroscope's clients
source_links   links from frames to source code
notes          notes on ranges and functions
otlp           ingest of OpenTelemetry profiles
forwarding     windows sent on to another system
deploys        settings of deploy evaluations and alerts
comparison     settings of comparisons
kubernetes     identities from a cluster, discovery, attached sidecars
engine         the external engine that sums samples, and its URL
types          parsers of values
"""
