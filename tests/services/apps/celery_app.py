"""Celery with a broker in memory: its main process asks for REQUESTS_PER_SECOND, at a constant rate."""

import os
import threading
import time

from celery import Celery
from celery.signals import worker_ready
from work import burn, wait_for_backend

app = Celery("services", broker="memory://")
app.conf.update(
    broker_transport_options={"polling_interval": 0.02},
    task_ignore_result=True,
    worker_prefetch_multiplier=4,
)


@app.task
def handle() -> None:
    wait_for_backend()
    burn()


@worker_ready.connect
def begin(**_: object) -> None:
    threading.Thread(target=ask, args=(float(os.environ["REQUESTS_PER_SECOND"]),), daemon=True).start()


def ask(rate: float) -> None:
    begun, number = time.monotonic(), 0
    while True:
        number += 1
        time.sleep(max(0.0, begun + number / rate - time.monotonic()))
        handle.delay()
