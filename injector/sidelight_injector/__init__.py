"""The admission webhook that puts a sidecar into the pods that ask for one."""
