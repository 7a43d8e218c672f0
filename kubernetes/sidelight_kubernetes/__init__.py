"""The Kubernetes API, and names that the programs share.

kubernetes_client  the one module that speaks to the API server
naming             a pod's service, version and owner
label_names        labels and annotations
"""
