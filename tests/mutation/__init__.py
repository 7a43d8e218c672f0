"""Mutation testing of the store: does the simulation find small defects in it?

mutants     the defects, each a changed line
simulate    what runs on a changed copy: the simulation, seed by seed, until a check fails
__main__    the command: copies, changes, runs, and prints the table
"""
