"""The sampling of each process.

target_source    the processes to sample, and their labels
process_watcher  starts a loop for each process
process_sampler  the loop of one process
sampler_context  what all of these loops share
sampling_loop    samples one window
window_check     decides what a window without stacks means
session_handle   the sampler's session, with the guard around it
sampler_calls    its blocking calls, in threads, with a timeout
process_capture  a capture on one process
"""
