"""Deploy detection and evaluation: each new version against the previous one.

deploy              the state of a deploy, as pure functions
version_discovery   versions in stored windows
version_registry    versions known so far
rollout_matching    which versions are rollouts that Kubernetes shows
version_admission   decides which versions count
deploy_detector     finds new versions
baseline_selection  selects the time that is compared
evaluation          runs one analysis
evaluator           the loop that decides when to analyse
rate_limiter        limits the CPU time of analyses
query_client        runs queries from another thread
deploy_repository   deploys in the object store
deploy_codec        deploys as JSON
notify              webhook and Alertmanager notifications
routes              HTTP handlers
deploy_wiring       builds all of it from the settings
"""
