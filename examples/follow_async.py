"""Follow a queue with asyncio while several tasks send to it.

    python examples/follow_async.py [FOLDER]

Tasks that send in the same turn of the event loop share one flush to disk.
"""

import asyncio
import sys
import tempfile

import waypost
from waypost import aio


async def measure(temperatures: aio.Queue, sensor: str) -> None:
    for number in range(3):
        await temperatures.send(f"{20 + number} degrees", label=sensor)
        await asyncio.sleep(0.01)


async def main(folder: str) -> None:
    async with aio.open(folder) as manager:
        try:
            temperatures = await manager.create_queue("temperatures")
        except waypost.errors.QueueExists:
            temperatures = manager.queue("temperatures")

        sensors = [asyncio.create_task(measure(temperatures, sensor)) for sensor in ("kitchen", "cellar", "roof")]
        count = 0
        async for temperature in temperatures.follow(timeout=0.5):
            print(f"{temperature.label}: {temperature.text}")
            count += 1
        await asyncio.gather(*sensors)
        print(f"{count} temperatures were received, and then no message arrived for half a second")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(main(folder))
