"""Authentication and authorisation.

authorizer      every request passes it
read_rules      who may read which namespaces
write_identity  which labels a pod may write
token_review    whose a pod's token is
"""
