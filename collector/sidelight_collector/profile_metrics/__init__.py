"""Metrics for Prometheus from functions, packages, endpoints and states.

- `rules`: the rules of a file, as values
- `unique_key_yaml`: YAML without repeated keys
- `rule_file`: the format of that file
- `rule_values`: the values of rules in a time range
- `exposition`: their text
- `rule_evaluator`: evaluates rules once for each interval
- `metrics_endpoint`: `/metrics/profiles`
"""
