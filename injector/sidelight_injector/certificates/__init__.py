"""Certificates of the webhook.

certificates          made
certificate_rotation  shared and renewed
tls                   the server's context
"""
