"""What the programs know of Kubernetes: one client, the names of pods, and the words they agree on.

words     labels, annotations and names, the same in the webhook, the chart and the collector
naming    a pod's service, version and owner, from its plain JSON; pure
client    the one module that speaks to the API server
"""
