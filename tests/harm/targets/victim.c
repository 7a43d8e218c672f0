/* What a sampler may not disturb: system calls that wait, and signals with a value. For victim.py and the tests. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum kind { EPOLL_WAIT, POLL, RECV, NANOSLEEP, KINDS };

/* Counted by whoever waits, read by the test through a shared file. */
struct waits {
    long calls, interrupted, failed;
};

static unsigned char *seen;
static long most;

static void got(int number, siginfo_t *info, void *context)
{
    long value = info->si_value.sival_int;
    (void)number;
    (void)context;
    if (value >= 0 && value < most)
        __atomic_fetch_add(&seen[value], 1, __ATOMIC_RELAXED);
}

/* Counts at where[value] every real-time signal of that value, up to `many`. */
int count_signals(unsigned char *where, long many)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = got;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    seen = where;
    most = many;
    for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
        if (sigaction(number, &action, NULL) != 0)
            return errno;
    return 0;
}

/* Queues a signal with a value, for a process (tid 0) or one of its threads. */
int queue_signal(int pid, int tid, int number, int value)
{
    union sigval with = {.sival_int = value};
    siginfo_t info;
    if (tid == 0)
        return sigqueue(pid, number, with) ? errno : 0;
    memset(&info, 0, sizeof info);
    info.si_signo = number;
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value = with;
    return syscall(SYS_rt_tgsigqueueinfo, pid, tid, number, &info) ? errno : 0;
}

/* What a kind of wait waits for, and what never comes. */
int silence(int kind, int milliseconds)
{
    int pair[2];
    struct timeval timeout = {milliseconds / 1000, milliseconds % 1000 * 1000};
    if (kind == EPOLL_WAIT)
        return epoll_create1(0);
    if (kind == NANOSLEEP)
        return -1;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        return -1;
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    return pair[0];
}

static int wait_for(int kind, int fd, int milliseconds)
{
    struct epoll_event event;
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    char byte;
    switch (kind) {
    case EPOLL_WAIT:
        return epoll_wait(fd, &event, 1, milliseconds);
    case POLL:
        return poll(&polled, 1, milliseconds);
    case RECV:
        return recv(fd, &byte, 1, 0) < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : -1;
    default:
        return nanosleep(&pause, NULL);
    }
}

/* Waits so many times (-1: for ever), as C code does that knows nothing of a profiler. */
void wait_times(struct waits *waits, int kind, int fd, int milliseconds, long times)
{
    for (; times != 0; times -= times > 0) {
        errno = 0;
        if (wait_for(kind, fd, milliseconds) != 0) {
            waits->interrupted += errno == EINTR;
            waits->failed += errno != EINTR;
        }
        waits->calls++;
    }
}

struct waiter {
    struct waits *waits;
    int kind, milliseconds;
};

static void *wait_for_ever(void *of)
{
    struct waiter *waiter = of;
    wait_times(waiter->waits, waiter->kind, silence(waiter->kind, waiter->milliseconds), waiter->milliseconds, -1);
    return NULL;
}

/* A thread that Python does not know, for each kind of wait. */
int start_waiters(struct waits *waits, int milliseconds)
{
    static struct waiter waiters[KINDS];
    static pthread_t threads[KINDS];
    for (int kind = 0; kind < KINDS; kind++) {
        waiters[kind] = (struct waiter){&waits[kind], kind, milliseconds};
        if (pthread_create(&threads[kind], NULL, wait_for_ever, &waiters[kind]) != 0)
            return errno;
    }
    return 0;
}

/* What no sampler may do, for the tests of the tests: stops a thread wherever it is, and lets it go on. */
int disturb(int tid)
{
    int status;
    if (ptrace(PTRACE_SEIZE, tid, 0, 0) != 0 || ptrace(PTRACE_INTERRUPT, tid, 0, 0) != 0)
        return errno;
    if (waitpid(tid, &status, __WALL) != tid)
        return errno;
    return ptrace(PTRACE_DETACH, tid, 0, 0) != 0 ? errno : 0;
}

/* Nor this: queues a signal for a thread, takes it as its tracer, and
   lets go of the thread without it. */
int lose_signal(int pid, int tid, int number, int value)
{
    int status, error;
    if (ptrace(PTRACE_SEIZE, tid, 0, 0) != 0)
        return errno;
    error = queue_signal(pid, tid, number, value);
    if (error == 0)
        error = waitpid(tid, &status, __WALL) == tid && WIFSTOPPED(status) ? 0 : ECHILD;
    if (ptrace(PTRACE_DETACH, tid, 0, 0) != 0)
        return errno;
    return error;
}
