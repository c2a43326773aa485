"""Evaluations on workers of Dask: processes of this machine, or those of a scheduler."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

from numc.compiler.search.evaluation import Answer, Message, identity, task
from numc.compiler.search.extra import need
from numc.compiler.support.errors import NumcError, quoted, shortened

_WAIT = 10  # seconds for a scheduler to answer, and for it to have a worker


class Cluster:
    """Workers that evaluate policies. The message goes to them once, and again to those that have lost it.

    workers: how many processes to start on this machine. address: of a scheduler, instead of them.
    Raises NumcError if there is no scheduler, no worker, or a worker with another numc.
    """

    def __init__(self, given: Message, *, workers: int = 0, address: str | None = None) -> None:
        need("distributed")
        import distributed

        self._dask, self._given = distributed, given
        self._closing = contextlib.ExitStack()
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what workers die of is said in our own words
        try:
            self._client = self._connected(address) if address is not None else self._started(workers)
            self._check()
            self._message = self._sent()
        except BaseException:
            self._closing.close()
            raise

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._closing.close()

    def _started(self, workers: int) -> Any:
        """Start processes on this machine. Their connections are encrypted: no other user can give them work."""
        need("cryptography")
        local = self._dask.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=0,
            dashboard_address=None,
            security=True,
            silence_logs=logging.CRITICAL,
        )
        self._closing.callback(local.close)
        return self._closing.enter_context(self._dask.Client(local))

    def _connected(self, address: str) -> Any:
        try:
            client = self._closing.enter_context(self._dask.Client(address, timeout=_WAIT))
            client.wait_for_workers(1, timeout=_WAIT)
        except (OSError, ValueError, self._dask.TimeoutError) as error:
            why = shortened(str(error).splitlines()[0] if str(error) else type(error).__name__, 200)
            raise NumcError(
                f"scheduler {quoted(address)}: no answer, or no worker: {why}: start `dask scheduler` and `dask worker`"
            ) from None
        return client

    def _check(self) -> None:
        """Raise NumcError if a worker has no numc, or another one."""
        found = self._client.run(identity, on_error="return")
        for worker, version in sorted(found.items()):
            if version != identity():
                has = f"numc {version}" if isinstance(version, str) else f"no numc ({shortened(version, 100)})"
                want = f"the search has numc {identity()}: install the same everywhere"
                raise NumcError(f"worker {worker} has {has}, {want}")

    def _sent(self) -> Any:
        """Send the message to all workers. A worker that comes later gets it from another one."""
        return self._client.scatter(self._given, broadcast=True, hash=False)

    def evaluate(self, policies: Sequence[str], split: str) -> Iterator[tuple[int, Answer]]:
        """Yield the number of each policy and its answer, as they come."""
        waiting = {self._submitted(policy, split): number for number, policy in enumerate(policies)}
        coming = self._dask.as_completed(waiting)
        for future in coming:
            number = waiting.pop(future)
            if future.status == "finished":
                yield number, Answer(**future.result())
                continue
            error = self._error(future)
            if isinstance(error, NumcError):
                raise error
            if isinstance(error, self._dask.scheduler.KilledWorker):
                reason = "the worker died again and again while it evaluated this policy"
                yield number, Answer(float("nan"), error=reason)
                continue
            # The workers that had the message are gone: send it again to those that have come in their place.
            self._client.wait_for_workers(1)
            self._message = self._sent()
            again = self._submitted(policies[number], split)
            waiting[again] = number
            coming.add(again)

    def _submitted(self, policy: str, split: str) -> Any:
        return self._client.submit(task, self._message, policy, split, identity(), pure=False)

    def _error(self, future: Any) -> BaseException | None:
        if self._client.status != "running":
            raise NumcError("search: the scheduler is gone: start it again, and go on with --resume")
        return None if future.cancelled() else future.exception()


def threads_of(workers: int) -> int:
    """Return how many threads each of so many processes of this machine should run a program with."""
    return max(1, (os.cpu_count() or 1) // workers)
