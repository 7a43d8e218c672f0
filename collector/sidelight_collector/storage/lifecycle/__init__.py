"""What becomes of stored windows.

compaction  segments become blocks
retention   old blocks are downsampled and deleted
"""
