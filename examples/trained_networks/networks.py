"""The trained networks: their files in packages, what they are asked, how answers are read, and how good they are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import film_titles
import numpy as np
import numpy.typing as npt
import onnx
import reading
import recordings
import typed_files
from sources import of_package

INSTALL = "--no-deps rapidocr-onnxruntime magika silero-vad"
BATCH = 10
TURN_WIDTH = 192
NOISE = {"text": 0.25, "turn": 0.05}
"""The standard deviation of the noise on shades from 0 to 1."""


Run = Callable[[Callable[..., Any], npt.NDArray[Any]], npt.NDArray[np.float32]]
"""From a program and the inputs of some items to their outputs."""


def in_batches(program: Callable[..., Any], inputs: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return the outputs of a program of one input with several items."""
    return np.concatenate([program(inputs[n : n + BATCH]) for n in range(0, len(inputs), BATCH)])


@dataclass(frozen=True)
class Network:
    """A network in a file of a package, and its items.

    inputs: of all items, [n, ...]. answer: from the outputs of one item to a text. score: from the number of an item
    and the answer to how right it is, 0 to 1. run: how a program is run.
    """

    name: str
    file: Path
    inputs: npt.NDArray[Any]
    answer: Callable[[npt.NDArray[np.float32]], str]
    score: Callable[[int, str], float]
    run: Run = in_batches

    @property
    def digest(self) -> str:
        """The first digits of the SHA-256 of the inputs and of the file."""
        return hashlib.sha256(self.inputs.tobytes() + self.file.read_bytes()).hexdigest()[:16]


def recogniser() -> Network:
    """Return PP-OCRv4's recogniser, which reads lines of text. Raises DataError."""
    file = _ocr("ch_PP-OCRv4_rec_infer.onnx")
    titles = film_titles.titles()
    pictures = np.stack([film_titles.picture(number, title, NOISE["text"]) for number, title in enumerate(titles)])
    characters = _characters(file)
    return Network(
        "text",
        file,
        film_titles.normalised(pictures),
        lambda outputs: reading.decoded(outputs, characters),
        lambda item, answer: reading.share_right(answer.strip(), titles[item]),
    )


def turns() -> Network:
    """Return PP-OCR's classifier of lines that are upright or upside down: the beginnings of all titles, in both ways.

    Raises DataError.
    """
    file = _ocr("ch_ppocr_mobile_v2.0_cls_infer.onnx")
    titles = film_titles.titles()
    upright = [film_titles.picture(number, title, NOISE["turn"])[:, :TURN_WIDTH] for number, title in enumerate(titles)]
    pictures = np.stack([turned for picture in upright for turned in (picture, picture[::-1, ::-1])])
    degrees = ("0", "180")
    return Network(
        "turn",
        file,
        film_titles.normalised(pictures),
        lambda outputs: degrees[int(outputs.argmax())],
        lambda item, answer: float(answer == degrees[item % 2]),
    )


def file_types() -> Network:
    """Return magika's network, which tells the type of a file. Raises DataError."""
    folder = of_package("magika", "models", "standard_v3_3", install=INSTALL)
    file = of_package("magika", "models", "standard_v3_3", "model.onnx", install=INSTALL)
    labels = json.loads((folder / "config.min.json").read_text(encoding="utf-8"))["target_labels_space"]
    types = of_package("magika", "config", "content_types_kb.min.json", install=INSTALL)
    suffixes = {name: each["extensions"] for name, each in json.loads(types.read_text(encoding="utf-8")).items()}
    files = typed_files.files()
    return Network(
        "file",
        file,
        np.stack([typed_files.features(path.read_bytes()) for path in files]),
        lambda outputs: labels[int(outputs.argmax())],
        lambda item, answer: float(files[item].suffix.removeprefix(".") in suffixes[answer]),
    )


def speech() -> Network:
    """Return Silero's detector of speech, an answer of which is 0 or 1 for each frame. Raises DataError."""
    file = of_package("silero_vad", "data", "silero_vad_16k_sequence.onnx", install=INSTALL)
    inputs, labels = recordings.pieces()
    state = np.zeros((1, 1, 128), np.float32)

    def run(program: Callable[..., Any], some: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        probabilities = [program(each, state, state)["speech_probs"] for each in some]
        return np.stack(probabilities)[:, recordings.PIECE :]

    return Network(
        "speech",
        file,
        inputs,
        lambda outputs: "".join("01"[int(each > 0.5)] for each in outputs),
        lambda item, answer: float(np.mean([each == "01"[int(label)] for each, label in
                                            zip(answer, labels[item], strict=True)])),
        run,
    )  # fmt: skip


NETWORKS: dict[str, Callable[[], Network]] = {
    "text": recogniser,
    "turn": turns,
    "file": file_types,
    "speech": speech,
}


def _ocr(name: str) -> Path:
    return of_package("rapidocr_onnxruntime", "models", name, install=INSTALL)


def _characters(file: Path) -> Sequence[str]:
    model = onnx.load(file)
    (stored,) = (entry.value for entry in model.metadata_props if entry.key == "character")
    return ["", *stored.splitlines(), " "]
