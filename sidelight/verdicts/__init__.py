"""Whether two sides differ: estimates with intervals, what makes sides comparable, and conditions on both."""
