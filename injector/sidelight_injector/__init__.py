"""The injector: an admission webhook that puts sidecars into pods.

command       `sidelight injector`
settings
main          builds the parts and runs the root tasks
server        the webhook
admission     decides whether a pod gets a sidecar
certificates  of the webhook
events        Kubernetes Events
health
metrics
"""
