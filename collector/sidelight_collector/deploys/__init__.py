"""Deploys: each new version of a service is compared with the previous one.

deploy              the state of one
version_discovery   versions in stored windows
version_registry    versions known so far
deploy_detector     finds new versions
baseline_selection  the time it is compared with
evaluation          one analysis
evaluator           the loop: when to analyse
rate_limiter        how much of the process it takes
query_client        asks the query engine
deploy_repository   deploys in the store
deploy_codec        as JSON
notify              webhooks and Alertmanager
routes
deploy_wiring       made from settings
"""
