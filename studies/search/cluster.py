"""Evaluations on workers of Dask: processes of this machine, or those of a scheduler."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

from numc.studies.search.evaluation import Answer, Message, identity, task
from numc.studies.search.extra import need
from numc.support.errors import NumcError, quoted, shortened

_ATTEMPTS = 3  # to evaluate alone a policy that was lost with its worker
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
        self._closing.enter_context(_silent())
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
        versions = self._client.run(identity, on_error="return")
        for worker, version in sorted(versions.items()):
            if version != identity():
                has = f"numc {version}" if isinstance(version, str) else f"no numc ({shortened(version, 100)})"
                want = f"the search has numc {identity()}: install the same everywhere"
                raise NumcError(f"worker {worker} has {has}, {want}")

    def _sent(self) -> Any:
        """Send the message to all workers, as soon as there are any. One that comes later gets it from another one."""
        while True:
            try:
                self._client.wait_for_workers(1)
                return self._client.scatter([self._given], broadcast=True, hash=False)[0]
            except (OSError, self._dask.TimeoutError) as error:
                self._check_alive(error)  # if it is, the workers died meanwhile

    def evaluate(self, policies: Sequence[str], split: str) -> Iterator[tuple[int, Answer]]:
        """Yield the number of each policy and its answer, as they come.

        What is lost with a worker is evaluated again alone: if workers die then, nothing else can be the reason.
        """
        waiting = {self._submitted(policy, split): number for number, policy in enumerate(policies)}
        lost = []
        for future in self._dask.as_completed(waiting):
            answer = self._answer(future)
            if answer is None:
                lost.append(waiting[future])
            else:
                yield waiting[future], answer
        for number in sorted(lost):
            yield number, self._alone(policies[number], split)

    def _alone(self, policy: str, split: str) -> Answer:
        for _ in range(_ATTEMPTS):
            if self._message.status != "finished":  # its workers are gone, and others have come in their place
                self._message = self._sent()
            answer = self._answer(self._submitted(policy, split))
            if answer is not None:
                return answer
        return Answer(float("nan"), error=f"{_ATTEMPTS} workers died, one after the other, of this policy")

    def _submitted(self, policy: str, split: str) -> Any:
        return self._client.submit(task, self._message, policy, split, identity(), pure=False)

    def _answer(self, future: Any) -> Answer | None:
        """Return an answer, or None if it is lost with its worker. Raises NumcError if there is no hope for one."""
        try:
            return Answer(**future.result())
        except (self._dask.scheduler.KilledWorker, self._dask.client.CancelledError, OSError) as error:
            self._check_alive(error)
            return None

    def _check_alive(self, error: BaseException) -> None:
        if self._client.status != "running":
            raise NumcError("search: the scheduler is gone: start it again, and go on with --resume") from error


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Silence Dask's own messages about workers and schedulers that die: what matters of it is said as our own."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]
    before = {name: logging.getLogger(name).level for name in names}
    try:
        for name in names:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def threads_of(workers: int) -> int:
    """Return how many threads each of so many processes of this machine should run a program with."""
    return max(1, (os.cpu_count() or 1) // workers)
