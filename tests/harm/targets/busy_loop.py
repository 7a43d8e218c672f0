"""An event loop that never rests, until its input ends, and then what of its work went wrong, as JSON.

Pairs of tasks pass numbers through queues of one place, each with a task for every tenth. `lost` counts the
numbers that did not arrive in their order, `errors` are the exceptions that the loop handled.
"""

import asyncio
import json
import sys

PAIRS = 100


async def put(queue, stop):
    number = 0
    while not stop.is_set():
        number += 1
        await queue.put(number)
        if number % 10 == 0:
            await asyncio.create_task(asyncio.sleep(0))
    await queue.put(None)
    return number


async def get(queue):
    numbers = 0
    lost = 0
    while (number := await queue.get()) is not None:
        numbers += 1
        lost += number != numbers
    return numbers, lost


async def main():
    loop = asyncio.get_running_loop()
    errors = []
    loop.set_exception_handler(lambda _loop, context: errors.append(context["message"]))
    stop = asyncio.Event()
    loop.add_reader(sys.stdin, stop.set)
    queues = [asyncio.Queue(1) for _ in range(PAIRS)]
    tasks = [asyncio.create_task(work) for queue in queues for work in (put(queue, stop), get(queue))]
    print("ready", flush=True)
    results = await asyncio.gather(*tasks)
    pairs = list(zip(results[::2], results[1::2], strict=True))
    lost = sum(lost + (sent != numbers) for sent, (numbers, lost) in pairs)
    print(json.dumps({"passed": sum(sent for sent, _ in pairs), "lost": lost, "errors": errors}), flush=True)


asyncio.run(main())
