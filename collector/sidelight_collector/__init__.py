"""The collector: stores windows, serves queries, runs captures, evaluates deploys.

command               `sidelight collector`
settings
main                  builds the components and runs the root tasks
settings_wiring       policies and clients from settings
runtime               worker processes and the HTTP server
http                  the application, the API, the files of the UI
auth                  who may read and write
auth_wiring           builds authorization from the settings
ingest                from a request to a segment
storage               objects, segments, blocks, compaction, retention
query                 selects windows and sums their stacks
comparison            comparison of two sides
statistics            tests and confidence intervals
answers               one module for each response of the API
profile_files         answers on files that readers send
captures              captures on demand
capture_wiring        builds captures from the settings
deploys               evaluation of deploys
notes                 notes of users
kubernetes_discovery  workloads and rollouts
kubernetes_wiring     builds discovery from the settings
doctor                `sidelight doctor`
storage_command       `sidelight storage`
metrics
times                 times in query parameters
arrow_ops             operations on Arrow columns
stack_hashing         hashes of stacks and windows
native_kernel         loads the Rust extension
decompress            bounded decompression
json_body             bounded JSON
lru                   a cache bounded in bytes
"""
