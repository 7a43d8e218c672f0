"""Notes of users on a time range or on a function of a service.

note             the state of a note, and the requests of users, as pure functions
note_repository  notes in the object store
note_routes      HTTP handlers
"""
