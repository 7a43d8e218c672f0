"""Implementations of ObjectStore.

open_store             opens and verifies the store of --store
s3                     a bucket
directory              a directory of a local file system
memory                 for tests
no_conditional_writes  a store without conditional writes, for one process
disk_cache             caches immutable objects on a local disk
instrumented           counts operations in metrics
"""
