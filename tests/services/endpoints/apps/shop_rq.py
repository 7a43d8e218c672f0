"""RQ: `shop_rq.py PORT` asks for jobs of the Redis at that port, and runs them in its process."""

import sys
import threading
import time

from work import burn


def send_receipt():
    burn()


class Stock:
    @staticmethod
    def sync():
        burn()


def ask(queue):
    while True:
        if len(queue) < 20:
            queue.enqueue(shop_rq.send_receipt)
            queue.enqueue(shop_rq.Stock.sync)
        time.sleep(0.005)


if __name__ == "__main__":
    import shop_rq
    from redis import Redis
    from rq import Queue, SimpleWorker

    connection = Redis(port=int(sys.argv[1]))
    queue = Queue(connection=connection)
    threading.Thread(target=ask, args=(queue,), daemon=True).start()
    SimpleWorker([queue], connection=connection).work(logging_level="ERROR")
