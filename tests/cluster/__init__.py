"""A real Kubernetes for tests: an API server on loopback, and a node where the machine can have one."""
