"""numc.search on workers of Dask: the same result for any number of them, whatever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import numc
from numc.frontends.imported import Imported
from numc.studies.search import cluster as module
from numc.studies.search.evaluation import identity
from numc.studies.search.journal import NAME
from search_evaluations import KILL_AT, PLACE, missing_in_workers, other_in_workers
from small_models import THREE, data

distributed = pytest.importorskip("distributed")
MODEL = Imported(mlir=THREE)
FUNCTION = "search_evaluations:accuracy"
IN_THREADS = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}


def searched(**options: object) -> dict[str, object]:
    found = numc.search(MODEL, **{"tolerance": 0.01, "evaluate": FUNCTION, "space": "e=3..5 m=1..7", **options})
    return found.as_json()


@pytest.mark.all
def test_workers_run_the_model_and_refuse_what_is_not_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    one = {"evaluate": None, "data": data(8), "space": "e=8 m=6..7", "tolerance": 0.1}
    with distributed.LocalCluster(**IN_THREADS) as local:
        assert searched(**one, scheduler=local.scheduler_address) == searched(**one)
        for theirs, has in ((other_in_workers, "numc 0.0.9"), (missing_in_workers, "no numc (No module named 'numc')")):
            monkeypatch.setattr(module, "identity", theirs)
            with pytest.raises(numc.NumcError) as error:
                searched(**one, scheduler=local.scheduler_address)
            assert f" has {has}, the search has numc {identity()}: install the same everywhere" in str(error.value)
    monkeypatch.setattr(module, "_WAIT", 1)
    for address, why in (("tcp://127.0.0.1:1", "Timed out trying to connect"), ("nowhere", "missing port number")):
        with pytest.raises(numc.NumcError) as error:
            searched(**one, scheduler=address)
        words = str(error.value)
        assert words.startswith(f"scheduler '{address}': no answer, or no worker: {why}")
        assert words.endswith("start `dask scheduler` and `dask worker`")


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["procedure", "tpe"])
def test_any_number_of_workers_and_a_killed_one_give_the_same(
    sampler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = searched(sampler=sampler, trials=24)
    for workers, kill_at in ((1, 4), (2, 4), (4, 10**6)):
        place = tmp_path / str(workers)
        place.mkdir()
        monkeypatch.setenv(PLACE, str(place))
        monkeypatch.setenv(KILL_AT, str(kill_at))
        assert searched(sampler=sampler, trials=24, workers=workers) == alone
        assert (place / "killed").exists() == (kill_at < 10**6)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_a_killed_client_goes_on_where_it_was(workers: int, tmp_path: Path) -> None:
    """SIGKILL in the middle of an evaluation, or between two of them, ends nothing but the process."""
    (tmp_path / "three.mlir").write_text(THREE)
    place, folder = tmp_path / "evaluations", tmp_path / "found"
    place.mkdir()
    command = [sys.executable, "-m", "numc", "search", "three.mlir", "--evaluate", FUNCTION, "--space", "e=3..5 m=1..7"]
    command += ["--tolerance", "0.01", "-o", str(folder), *(["--workers", str(workers)] if workers else [])]
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[1] / "shared"), os.environ.get("PYTHONPATH")]))
    begun = {**os.environ, "PYTHONPATH": path, PLACE: str(place)}
    if workers:
        client = subprocess.Popen(command, cwd=tmp_path, env=begun, stderr=subprocess.DEVNULL)
        while len(list(place.iterdir())) < 5 and client.poll() is None:
            time.sleep(0.01)
        client.kill()
        assert client.wait() == -signal.SIGKILL
    else:
        killed = subprocess.run(command, cwd=tmp_path, env={**begun, KILL_AT: "5"}, capture_output=True, check=False)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = (folder / NAME).read_bytes().count(b"\n") - 1
    found = numc.search(
        tmp_path / "three.mlir", tolerance=0.01, evaluate=FUNCTION, space="e=3..5 m=1..7", folder=folder, resume=True
    )
    assert (folder / NAME).read_bytes().count(b"\n") - 1 > done
    alone = numc.search(tmp_path / "three.mlir", tolerance=0.01, evaluate=FUNCTION, space="e=3..5 m=1..7")
    assert found.as_json() == alone.as_json()
    assert (folder / "best.policy").read_text() == alone.policy


@pytest.mark.slow
def test_a_policy_that_kills_every_worker_is_a_failed_evaluation() -> None:
    alone = searched()
    killing = searched(evaluate="search_evaluations:deadly", workers=1)
    errors = [trial["error"] for trial in killing["trials"]]
    assert set(errors) == {"", "3 workers died, one after the other, of this policy"}
    assert [t["value"] for t in killing["trials"] if not t["error"]] == [
        a["value"] for a, t in zip(alone["trials"], killing["trials"], strict=False) if not t["error"]
    ]


@pytest.mark.slow
def test_a_scheduler_that_dies_ends_the_search_with_one_line() -> None:
    gone = "search: the scheduler is gone: start it again, and go on with --resume"
    with distributed.LocalCluster(**IN_THREADS) as local, pytest.raises(numc.NumcError, match=gone):
        searched(scheduler=local.scheduler_address, progress=lambda *_: local.close())
