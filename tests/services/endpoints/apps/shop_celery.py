"""Celery with a broker in memory: its main process asks for tasks of several kinds, all the time."""

import threading
import time

from celery import Celery, Task
from celery.signals import worker_ready
from work import burn

app = Celery("shop", broker="memory://")
app.conf.update(
    broker_transport_options={"polling_interval": 0.02}, task_ignore_result=True, worker_prefetch_multiplier=4
)


class AuditedTask(Task):
    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs)


@app.task
def send_receipt():
    burn()


@app.task(base=AuditedTask, bind=True)
def index_items(self):
    burn()


@app.task(autoretry_for=(OSError,))
def sync_stock():
    burn()


@worker_ready.connect
def begin(**_):
    threading.Thread(target=ask, daemon=True).start()


def ask():
    while True:
        for task in (send_receipt, index_items, sync_stock):
            time.sleep(0.01)
            task.delay()
