"""Select windows.

window_query   select the windows of each side, each window once
matchers       evaluate selectors
observed_time  when versions and sides were observed
step_query     select rolled-up steps of a timeline
local_time     hours and days of a time zone
"""
