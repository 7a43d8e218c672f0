"""Notifications about deploys.

notifications  decides which are due, and builds them
notifiers      sends them
deploy_links   URLs in them
"""
