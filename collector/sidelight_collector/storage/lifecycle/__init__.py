"""Background maintenance of stored windows.

compaction  merges segments into blocks
retention   downsamples and deletes old blocks
"""
