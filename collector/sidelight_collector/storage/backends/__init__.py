"""Object stores.

open_store             from --store to a store that works
s3
directory
memory                 for tests
no_conditional_writes  for one process
disk_cache
instrumented           with metrics
"""
