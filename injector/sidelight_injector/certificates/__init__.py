"""Certificates of the webhook.

certificates          creates and renews them
certificate_rotation  shares them between replicas
"""
