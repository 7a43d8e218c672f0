"""Checks of whether two sides can be compared, with remedies.

Each check covers one property that must be alike on both sides. In reading order: `check_result`,
`sampling_summary`, `state_checks`, `sampling_checks`, `load_checks`, `pod_exclusion`, and `checks`, which
runs them all.
"""
