"""The sidecar: samples Python processes and ships windows to the collector.

command         `sidelight sidecar`
settings        all settings, composed with:
sampling_settings
                the settings that the node agent has as well
collector_connection
                the collector's address, the token and the trusted authorities
agent           `sidelight agent`: samples the pods of a node
main            builds the parts and runs the root tasks
discovery       finds the processes to sample
samplers        read the stacks of one process
sampling        a loop for each process
overhead        the budget, and the pause switch
windows         from samples to windows
shipping        the spool, and sending from it
triggers        when to sample at a higher rate; `captures.trigger_monitor` evaluates them
boost           a higher rate for a limited time
captures        captures on demand, local and from the collector
one_time_token  the token of a sidecar attached for one capture
one_shot        when such a sidecar is done
startup_checks
state_directory where the spool is by default
health          current problems
descriptors     errors for want of file descriptors
metrics
server          the sidecar's HTTP port
"""
