"""The load of a scheduler under numc.search: CPU time for each evaluation, with evaluations that only wait.

Run ``python -m benchmarks.sections.search_scheduler``. docs/search.md plans for a thousand workers with its numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

import psutil

from numc.studies.search.cluster import Cluster
from numc.studies.search.evaluation import message

FUNCTION = "benchmarks.sections.search_scheduler:wait"
PORT = 8796


def wait(policy: str, split: str) -> float:
    """Stand for an evaluation."""
    time.sleep(0.1)
    return 1.0


def policies(count: int, layers: int) -> list[str]:
    """Texts of the size of a policy for so many layers, no two of them equal."""
    rule = 'layer "node_conv2d_{}" fma = fmacs(e4m3), ops = e4m3\n'
    return ["".join(map(rule.format, range(layers))) + f"# {n}\n" for n in range(count)]


def measure(tasks: int, threads: int, layers: int) -> dict[str, float]:
    """Return the CPU seconds of the scheduler and of the client for each task, and the tasks that it could serve."""
    address = f"tcp://127.0.0.1:{PORT}"
    started = [
        subprocess.Popen([sys.executable, "-m", "distributed.cli." + command, *arguments], stderr=subprocess.DEVNULL)
        for command, arguments in (
            ("dask_scheduler", ["--port", str(PORT), "--no-dashboard"]),
            ("dask_worker", [address, "--no-dashboard", "--nworkers", "2", "--nthreads", str(threads // 2)]),
        )
    ]
    try:
        scheduler = psutil.Process(started[0].pid)
        request = message(None, {}, metric="evaluate", output="", threads=None, function=FUNCTION)
        with Cluster(request, address=address) as cluster:
            list(cluster.evaluate(policies(threads, layers), "search"))
            before, own = scheduler.cpu_times(), time.process_time()
            done = len(list(cluster.evaluate(policies(tasks, layers), "search")))
            after = scheduler.cpu_times()
        seconds = (after.user + after.system - before.user - before.system) / done
        return {
            "tasks": done,
            "threads": threads,
            "policy_bytes": len(policies(1, layers)[0]),
            "scheduler_ms_per_task": round(1000 * seconds, 3),
            "client_ms_per_task": round(1000 * (time.process_time() - own) / done, 3),
            "tasks_per_second_of_one_core": round(1 / seconds),
        }
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


def main() -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=5000)
    parser.add_argument("--threads", type=int, default=1000, help="evaluations at once")
    parser.add_argument("--layers", type=int, default=54, help="of the policies; ResNet-50 has 54 contractions")
    args = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH", "")]))
    print(json.dumps(measure(args.tasks, args.threads, args.layers), indent=1))


if __name__ == "__main__":
    main()
