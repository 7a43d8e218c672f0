"""The Kubernetes API, and the names that the programs share.

kubernetes_client  the only module that connects to the API server
cluster_errors     errors of requests
api_paths          paths of the API, from checked names
naming             a pod's service, version and owner
label_names        labels and annotations
profiling_request  whether a pod asks to be profiled, and whether it has a sidecar
setting_annotations
                   settings that annotations of a pod change
reflector          lists and watches one kind of object
"""
