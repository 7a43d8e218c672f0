"""Notifications about deploys.

notifications  what is due
notifiers      sends them
deploy_links   addresses in them
"""
