"""The injector: an admission webhook that puts sidecars into pods.

command       `sidelight injector`
settings
main          builds the parts and runs the root tasks
server        the webhook
admission     what becomes of a pod
certificates  of the webhook
events        Kubernetes Events
health
metrics
"""
