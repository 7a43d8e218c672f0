"""What the collector knows of a cluster: pods and what owns them, rollouts, and pods that nobody profiles.

kinds      what is kept of an object of the API, from its plain JSON; pure
book       all that is known, kept up to date by events; pure
rollouts   when each revision began and was complete; pure, and sums that any two collectors agree on
standing   how each pod of a workload stands; pure
follow     list and watch of one kind of object, in a thread
share      one process watches, the others read what it wrote into the store
watcher    the root task: takes the watch, ends it, counts
routes     GET /api/v1/workloads
"""
