"""The sampling of each process.

process_watcher  starts a loop for each process
process_sampler  the loop of one process
sampling_loop    samples one window
session_handle   calls the sampler's session in threads
guarded_session  the session with the guard around it
capture_job      a capture on the processes of this sidecar
"""
