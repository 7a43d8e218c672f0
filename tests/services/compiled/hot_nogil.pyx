"""A hot loop in Cython that gives the GIL away."""

from posix.time cimport CLOCK_THREAD_CPUTIME_ID, clock_gettime, timespec


cdef double thread_time() nogil:
    cdef timespec now
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now)
    return now.tv_sec + now.tv_nsec / 1e9


def burn(double seconds):
    """Take so many seconds of CPU time."""
    cdef double until = thread_time() + seconds
    cdef unsigned long turns = 1
    cdef int turn
    with nogil:
        while thread_time() < until:
            # Most of the time is to be spent here and not in asking the clock.
            for turn in range(20_000):
                turns = turns * 1664525 + turn
    return turns
