"""The collector: stores windows, answers queries, and runs captures and deploy evaluations.

command               `sidelight collector`
settings
main                  builds the parts and runs the root tasks
settings_wiring       policies and clients from settings
runtime               processes and the HTTP server
http                  the application, the API, the UI's files
auth                  who may read and write
auth_wiring           made from settings
ingest                from a request to a segment
storage               objects, segments, blocks, compaction, retention
query                 selects windows and sums their stacks
comparison            of two sides
statistics            tests and intervals
answers               one module for each answer of the API
captures              captures on demand
deploys               evaluation of new versions
kubernetes_discovery  workloads and rollouts
kubernetes_wiring     made from settings
doctor                `sidelight doctor`
storage_command       `sidelight storage`
metrics
times                 moments in requests
arrow_ops             operations on Arrow columns
stack_hashing         stacks by hash
native_kernel         the Rust extension
decompress            bounded decompression
lru                   a cache bounded in bytes
"""
