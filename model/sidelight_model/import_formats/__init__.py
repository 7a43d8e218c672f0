"""Profiles that other tools wrote.

folded_input    folded text, with comments, ids and other forms of frames
"""
