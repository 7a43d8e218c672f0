//! Passing a socket to another process, and waiting for bytes with a deadline.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Instant;

/// Room for the control message with one descriptor.
#[repr(align(8))]
struct ControlBuffer([u8; 64]);

/// Sends a socket. An error if the receiver has ended.
pub fn send_socket(to: BorrowedFd<'_>, socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut byte = 0u8;
    let mut control = ControlBuffer([0; 64]);
    let mut data = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: the message refers to `data` and `control`, which outlive the call; there is room for one descriptor.
    let sent = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&mut data, 1);
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(size_of::<i32>() as u32) as _;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<i32>() as u32) as _;
        libc::CMSG_DATA(header).cast::<i32>().write_unaligned(socket.as_raw_fd());
        libc::sendmsg(to.as_raw_fd(), &message, libc::MSG_NOSIGNAL)
    };
    if sent == 1 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Waits for a socket. None once the sender has closed the connection.
pub fn receive_socket(from: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    loop {
        let mut byte = 0u8;
        let mut control = ControlBuffer([0; 64]);
        let mut data = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        // SAFETY: the message refers to `data` and `control`, which outlive the call; a descriptor that was received
        // is owned by nobody else.
        unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            (message.msg_iov, message.msg_iovlen) = (&mut data, 1);
            (message.msg_control, message.msg_controllen) = (control.0.as_mut_ptr().cast(), 64);
            match libc::recvmsg(from.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC) {
                0 => return Ok(None),
                1 => {
                    let header = libc::CMSG_FIRSTHDR(&message);
                    if header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
                        return Err(io::ErrorKind::InvalidData.into());
                    }
                    let socket = libc::CMSG_DATA(header).cast::<i32>().read_unaligned();
                    return Ok(Some(OwnedFd::from_raw_fd(socket)));
                }
                _ => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
    }
}

/// Waits until bytes, or the end of the stream, can be read. False at the deadline.
pub fn wait_readable(socket: BorrowedFd<'_>, deadline: Instant) -> io::Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = libc::timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos() as _ };
        let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd and a valid timeout; the signal mask stays as it is.
        match unsafe { libc::ppoll(&mut poll, 1, &timeout, std::ptr::null()) } {
            0 => return Ok(false),
            1.. => return Ok(true),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}
