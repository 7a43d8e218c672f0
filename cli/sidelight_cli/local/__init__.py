"""`sidelight record` and `sidelight top`: the sampler by hand, on one machine and with no collector."""
