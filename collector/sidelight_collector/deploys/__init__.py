"""Deploys: each new version of a service is compared with the one before, again and again for a day.

appeared, known   which versions there are, and which of them are new
deploy            what is known of one deploy, and what becomes of it: values and pure functions
sides             which time of the previous version it is compared with
shelf, keeping    where deploys lie in the store, and how they are written
watch             the one process of all collectors that looks, when, and how much
alerts, receivers who is told of a regressed one, and that it is over
routes            /api/v1/deploys
"""
