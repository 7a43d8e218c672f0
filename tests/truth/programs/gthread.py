"""A gunicorn worker, its clients and a database, at a load (argv[3]) of `LOADS`.

A thread waits for a request from where it asks its queue for one until somebody puts one there, and for the
database until that has answered; it may still be in the queue for a CPU before it falls asleep. In the rest
of the time it has the GIL or wants it. gunicorn is in the folder PACKAGES of the environment.
"""

import os
import queue
import signal
import socket
import struct
import sys
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count

from telling import LUCK, C, Diary, Run, spin_until

sys.path.append(os.environ["PACKAGES"])

from gunicorn.app.base import BaseApplication
from gunicorn.workers.gthread import ThreadWorker

# How many clients, and how long each of them rests between two requests on average.
LOADS = {"light": (1, 0.03), "medium": (4, 0.03), "overload": (8, 0.0)}
THREADS = 4
PHASES = ("waits", "begins", "queries", "resumes", "works")
WAITS, BEGINS, QUERIES, RESUMES, WORKS = range(len(PHASES))
WORK_SECONDS = 0.004
QUERY_SECONDS = 0.012
PR_SET_PDEATHSIG = 1
RUN = Run()
DIARIES = []
NUMBERS = count()
OWN = threading.local()
CONNECTIONS = [socket.socketpair() for _ in range(THREADS)]


class Requests:
    """A queue that wakes one thread for each request: those of the library may wake some in vain.

    It has no lock that others could have to wait for: operations of a deque are atomic.
    """

    def __init__(self):
        self.requests, self.waiters = deque(), deque()

    def put(self, request):
        self.requests.append(request)
        self.match()

    def match(self):
        while self.requests and self.waiters:
            with suppress(IndexError):
                waiter = self.waiters.popleft()
                try:
                    waiter.request = self.requests.popleft()
                except IndexError:
                    self.waiters.appendleft(waiter)
                    continue
                waiter.woken_ns = time.time_ns()
                waiter.lock.release()

    def get(self, block=True):
        self.waiters.append(OWN.waiter)
        self.match()
        OWN.diary.begin(WAITS)
        OWN.waiter.lock.acquire()
        OWN.diary.switch(OWN.waiter.woken_ns, BEGINS)
        OWN.diary.begin(WORKS)
        return OWN.waiter.request

    def get_nowait(self):
        try:
            return self.requests.popleft()
        except IndexError:
            raise queue.Empty from None


class Waiter:
    def __init__(self):
        self.lock = threading.Lock()
        self.lock.acquire()


class Threads(ThreadPoolExecutor):
    """All threads are there from the beginning, and end their diaries at the end."""

    def __init__(self):
        super().__init__(THREADS, initializer=begin)
        self._work_queue = Requests()
        self.on_each(lambda: None)

    def on_each(self, call):
        barrier = threading.Barrier(THREADS)
        for future in [self.submit(lambda: (call(), barrier.wait())) for _ in range(THREADS)]:
            future.result()

    def shutdown(self, wait=True, **_options):
        self.on_each(lambda: OWN.diary.end())
        RUN.leave(*DIARIES)
        super().shutdown(wait)


class Worker(ThreadWorker):
    def get_thread_pool(self):
        return Threads()

    def run(self):
        RUN.ready()
        super().run()


def begin():
    number = next(NUMBERS)
    OWN.database = CONNECTIONS[number][0]
    OWN.diary = Diary(f"thread{number}", PHASES)
    OWN.waiter = Waiter()
    DIARIES.append(OWN.diary)


def answer(_environ, start_response):
    compute()
    query()
    compute()
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]


def compute():
    spin_until(time.thread_time() + WORK_SECONDS / 2, time.thread_time)


def query():
    # Keeps the GIL.
    C.send(OWN.database.fileno(), b"?", 1, 0)
    OWN.diary.begin(QUERIES)
    answered_ns = struct.unpack("q", OWN.database.recv(8))[0]
    OWN.diary.switch(answered_ns, RESUMES)
    OWN.diary.begin(WORKS)


def serve_database(connection):
    while connection.recv(1):
        time.sleep(LUCK.uniform(0, 2 * QUERY_SECONDS))
        connection.sendall(struct.pack("q", time.time_ns()))


def send_requests(port, pause_seconds):
    while True:
        time.sleep(LUCK.expovariate(1 / pause_seconds) if pause_seconds else 0)
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            while connection.recv(1024):
                pass


def start_process(function, calls):
    """Calls a function in as many threads of a new process, which ends when this one does."""
    if os.fork():
        return
    C.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    for arguments in calls:
        threading.Thread(target=function, args=arguments).start()
    threading.Event().wait()


class Application(BaseApplication):
    def load_config(self):
        listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        # A thread that has a connection also has its request.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 5)
        clients, pause_seconds = LOADS[RUN.variant[0]]
        start_process(serve_database, [(end,) for _, end in CONNECTIONS])
        start_process(send_requests, [(listener.getsockname()[1], pause_seconds)] * clients)
        settings = {"worker_class": Worker, "threads": THREADS, "loglevel": "error"}
        for name, value in {**settings, "bind": f"fd://{listener.detach()}"}.items():
            self.cfg.set(name, value)

    def load(self):
        return answer


Application().run()
