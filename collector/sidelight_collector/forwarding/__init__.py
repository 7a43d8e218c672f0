"""Send stored windows on to another system, Pyroscope's protocol or OTLP.

forwarder       the queue and its task
forward_client  sends requests
forward_body    windows as a push of Pyroscope or as a request of OTLP
"""
