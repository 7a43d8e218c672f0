"""The node agent: samples the pods of its node that ask for it.

command      `sidelight agent`
main         builds the parts; sampling and shipping are the sidecar's
settings
pod_captures polls the collector for capture jobs of each pod
pod_targets  chooses the processes of pods, and their labels
attached_pods
             pods that are sampled for one capture alone
pod_watcher  watches the node's pods and the namespaces
node_pod     the used fields of a pod, and whether it is profiled
"""
