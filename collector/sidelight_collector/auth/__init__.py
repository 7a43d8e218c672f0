"""Authentication and authorization.

authorizer      middlewares that check every request
otlp_errors     errors for clients of OTLP
read_rules      who may read which namespaces
write_identity  which labels a pod may write
token_review    identify the pod of a token with the Kubernetes API
"""
