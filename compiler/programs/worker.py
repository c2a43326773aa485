"""Workers' tasks: compiling, for processes that do not load MLIR (apart.py)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from numc.compiler import pipeline
from numc.compiler.dump import Dump, progress_of
from numc.compiler.lower import lowered, module_of
from numc.compiler.programs.apart import packed, unpacked
from numc.compiler.programs.build import build
from numc.frontends.workers import process
from numc.frontends.workers.worker import Answer, Parts, Stage
from numc.passes.explicit.readings import readings
from numc.support.errors import FAULT


def build_task(request: dict[str, Any], parts: Parts, stage: Stage) -> Answer:
    """Answer what the program file of a model holds."""
    imported, options = unpacked(parts)
    return {}, packed(build(imported, options, request.get("dump_dir")))


def readings_task(request: dict[str, Any], parts: Parts, stage: Stage) -> Answer:
    """Answer how a program reads inputs: by number, the format and why there is none."""
    imported, options, numbers = unpacked(parts)
    dump = Dump(Path(request["dump_dir"])) if "dump_dir" in request else None
    by_number = readings(lowered(imported, options, "numc", dump).operation, numbers)
    return {}, packed({number: (reading.format, reading.why) for number, reading in by_number.items()})


def crashed_task(request: dict[str, Any], parts: Parts, stage: Stage) -> Answer:
    """Do a task that crashed once more, and answer a message with the pass in which it does, its IR and a command."""
    folder = tempfile.mkdtemp(prefix="numc-failure-")
    task, how = f"{__name__}:{request['task']}", request["how"]
    try:
        process.ask(task, {"dump_dir": folder}, parts, size=None)
    except process.CrashError as death:
        how = str(death)
    else:
        return {"message": f"the process that compiles {how}, but not when it was tried again; {FAULT}"}, []
    imported, options, *_ = unpacked(parts)
    passes = [name for stage in pipeline.STAGES.values() for name in stage]
    done, before = progress_of(Path(folder))
    if done == len(passes):
        return {"message": f"the generator of code {how}; {FAULT}; the IR after every pass is in {folder}"}, []
    before = before or pipeline.text(module_of(imported, options))
    kept = pipeline.reproduced(passes[done], before, pipeline.State.of(options))
    return {"message": f"pass '{passes[done]}' {how}; {FAULT}; {kept}"}, []
