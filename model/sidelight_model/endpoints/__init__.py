"""Endpoints: the handler of a request or a task, found in the stack.

endpoint_search  find the endpoint of a stack
frame_roles      what a frame means to the rules of each framework
framework_rules  the rules, as data
"""
