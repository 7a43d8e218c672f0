"""Errors for want of file descriptors, of this process or of the machine.

An error for want of descriptors says nothing about the file. A process whose files cannot be opened has not
ended, and a window that cannot be read is not damaged.
"""

from __future__ import annotations

import errno
import os
import resource

OUT_OF_DESCRIPTORS_HINT = "Raise the limit of open files (ulimit -n), or sample fewer processes."


def is_out_of_descriptors(error: BaseException) -> bool:
    """Return whether this process, or the machine, has no file descriptor left."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


def reraise_if_out_of_descriptors(error: OSError) -> None:
    """Raise the error again if it says nothing about the file."""
    if is_out_of_descriptors(error):
        raise error


def explain_out_of_descriptors(error: OSError) -> str:
    """Return what failed, with the limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"this program can open no more files (its limit is {soft}): {os.strerror(error.errno or 0)}"
