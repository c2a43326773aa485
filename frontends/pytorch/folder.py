"""A language model in a folder of Hugging Face, or in a GGUF file: configuration, weights, tokenizer. None is run.

Transformers is imported when a folder is opened, because numc itself does not need it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from numc.frontends.imported import Imported
from numc.support.arguments import Fixed
from numc.support.errors import NumcError, quoted, shortened
from numc.support.files import GGUF, checked_path, is_language_model
from numc.support.json_values import parsed

_CONFIG, _INPUT = "config.json", "input_ids"
# What a tokenizer needs: without any of these, transformers makes one that knows no words.
_VOCABULARIES = ("tokenizer.json", "vocab.json", "vocab.txt", "tokenizer.model", "spiece.model", "tekken.json")
_WEIGHTS, _INDEX = "model.safetensors", "model.safetensors.index.json"
# What is missing or has other sizes is refused with its name, and not filled or left to an error of transformers.
_REPORTING = {"output_loading_info": True, "ignore_mismatched_sizes": True}
_FILE = re.compile(r"[\w.\-]+\.safetensors")  # of weights, in the folder itself
_MOST = 64 << 20  # bytes of a configuration or an index
_MOST_OF_TOKENIZER = 256 << 20  # bytes of any other file that is no weight
_WANT = f"want a folder with {_CONFIG} and *.safetensors, as save_pretrained of transformers writes it"


class LanguageModel:
    """A causal language model: a token is predicted from those before it.

    name: the folder. model: the module, in float32 and in evaluation mode. quantised: how its weights are stored, ""
    where they are plain numbers. context: the largest number of tokens that it takes, or None if it has no limit.
    vocabulary: the number of tokens that it knows.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Open a folder. Raises NumcError if it is none, if it needs code of its own, and if a weight is missing."""
        path = checked_path(folder)
        self.name, self._path = shortened(path, 300), path
        if path.suffix == GGUF and not path.is_dir():
            _check_gguf(path, self.name)
        else:
            _check(path, self.name)
        with _quiet():
            self.model, self.quantised = _loaded(path, self.name)
        limit = getattr(self.model.config, "max_position_embeddings", None)
        self.context = limit if isinstance(limit, int) else None
        self.vocabulary: int = self.model.get_input_embeddings().weight.shape[0]

    @functools.cached_property
    def tokenizer(self) -> Any:
        """The tokenizer of the folder. Raises NumcError if it has none that can be read as data."""
        folder, file = (self._path, {}) if self._path.is_dir() else (self._path.parent, {"gguf_file": self._path.name})
        if not file and not any((folder / name).is_file() for name in _VOCABULARIES):
            listed = ", ".join(_VOCABULARIES)
            raise NumcError(f"{self.name}: there is no tokenizer: want {listed}: copy that of the model into it")
        _refuse_code(self.name, {} if file else _read(folder / "tokenizer_config.json", self.name))
        from transformers import AutoTokenizer

        try:
            with _quiet():
                return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False, **file)
        except Exception as error:  # of whichever tokenizer the folder names
            raise NumcError(f"{self.name}: the tokenizer cannot be read: {_reason(error)}") from None

    def encoded(self, text: str) -> list[int]:
        """Return the tokens of a text. Raises NumcError if it has none, or one that the model does not know."""
        tokens = list(map(int, self.tokenizer(text)["input_ids"]))
        if not tokens:
            raise NumcError("the text has no tokens: want at least one word")
        self.check_tokens(max(tokens))
        return tokens

    def check_tokens(self, largest: int) -> None:
        """Raise NumcError if there is a token that the model does not know."""
        if largest >= self.vocabulary:
            raise NumcError(
                f"{self.name}: token {largest}: the model knows {self.vocabulary} tokens, 0 to {self.vocabulary - 1}: "
                "use the tokenizer that it was trained with"
            )


def text_tokens(folder: str | os.PathLike[str], file: str | os.PathLike[str]) -> list[int]:
    """Return the tokens of a text file by the tokenizer of a folder. Raises NumcError if either cannot be read."""
    if not is_language_model(folder):
        raise NumcError(f"{shortened(file, 300)}: a text needs a tokenizer: name a folder as the model, or give tokens")
    try:
        text = checked_path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise NumcError(f"{shortened(file, 300)}: cannot read: {reason}: want a text") from None
    return LanguageModel(folder).encoded(text)


def _check(path: Path, name: str) -> None:
    """Raise NumcError unless a folder has all that `_loaded` reads, and nothing that would have to be run."""
    if not path.is_dir():
        raise NumcError(f"{name}: {'is a file' if path.exists() else 'no such folder'}: {_WANT}")
    if not (path / _CONFIG).is_file():
        raise NumcError(f"{name}: has no {_CONFIG}: {_WANT}")
    _check_sizes(path, name)
    config = _read(path / _CONFIG, name)
    _refuse_code(name, config)
    _check_index(path, name)
    if weights_file := config.get("transformers_weights"):
        _check_file(path, name, _CONFIG, weights_file)
    if not any(path.glob("*.safetensors")):
        pickled = sorted(file.name for file in (*path.glob("*.bin"), *path.glob("*.pt"), *path.glob("*.pth")))
        what = f"weights in {quoted(pickled[0])}, which are pickled, that is code" if pickled else "no weights"
        raise NumcError(f"{name}: has {what}: want *.safetensors: save_pretrained of transformers writes them")
    _need(name, "torch", "transformers")


def _need(name: str, *packages: str, extras: str = "torch") -> None:
    for package in packages:
        if find_spec(package) is None:
            get = f"pip install 'numc[{extras}]' transformers"
            raise NumcError(f"{name}: needs {package}, which is not installed: {get}")


def _check_gguf(path: Path, name: str) -> None:
    """Raise NumcError unless there is a file, and what reads it."""
    if not path.is_file():
        raise NumcError(f"{name}: no such file: want a GGUF file, or {_WANT.removeprefix('want ')}")
    _need(name, "torch", "transformers", "gguf", "accelerate", extras="torch,gguf")


def _check_sizes(path: Path, name: str) -> None:
    """Raise NumcError for a file that is no weight and larger than such files are."""
    for file in sorted(path.iterdir()):
        if file.suffix == ".safetensors" or not file.is_file():
            continue
        described = file.name in (_CONFIG, _INDEX) or file.name.endswith("config.json")
        size, most = file.stat().st_size, _MOST if described else _MOST_OF_TOKENIZER
        if size > most and (described or file.suffix in (".json", ".txt", ".model", ".jinja")):
            raise NumcError(f"{name}: {quoted(file.name)} has {size >> 20} MiB: at most {most >> 20} MiB are read")


def _check_index(path: Path, name: str) -> None:
    """Raise NumcError if the index names anything but files of safetensors in the folder itself."""
    index = _read(path / _INDEX, name)
    files = index.get("weight_map", {}) if index else {}
    if not isinstance(files, dict):
        raise NumcError(f"{name}: {_INDEX} has no weight_map from weights to files: {_WANT}")
    for file in dict.fromkeys(map(str, files.values())):
        _check_file(path, name, _INDEX, file)


def _check_file(path: Path, name: str, where: str, file: object) -> None:
    if not isinstance(file, str) or not _FILE.fullmatch(file):
        what = "only *.safetensors in the folder itself are read, which hold no code"
        raise NumcError(f"{name}: {where} names the file {quoted(file)}: {what}")
    if not (path / file).is_file():
        raise NumcError(f"{name}: {where} names the file {quoted(file)}, which is not there: copy it into the folder")


def _read(file: Path, name: str) -> dict[str, Any]:
    """Return the content of a JSON file, nothing if there is none. Raises NumcError for anything but an object."""
    try:
        content = parsed(file.read_text(encoding="utf-8")) if file.exists() else {}
    except OSError as error:
        raise NumcError(f"{name}: cannot read {file.name}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise NumcError(f"{name}: {file.name} is not a JSON object: {_WANT}")
    return content


def _refuse_code(name: str, config: dict[str, Any]) -> None:
    if config.get("auto_map"):
        raise NumcError(f"{name}: needs Python code of its own (auto_map), which numc never runs: "
                        "use a model whose architecture is part of transformers")  # fmt: skip


def _loaded(path: Path, name: str) -> tuple[Any, str]:
    """Return the model of a folder or a GGUF file, and how its weights are quantised, "" if they are not."""
    try:
        load, stored = _reader(path, name)
        model, about = load()
    except NumcError as error:
        raise NumcError(f"{name}: {error}") from None
    except Exception as error:  # of whichever architecture the folder names
        raise NumcError(f"{name}: not a causal language model that transformers can read: {_reason(error)}") from None
    for what in ("missing_keys", "mismatched_keys"):
        if wrong := sorted(key if isinstance(key, str) else key[0] for key in about[what]):
            problem = "is missing" if what == "missing_keys" else "has another shape than the configuration says"
            raise NumcError(
                f"{name}: weight {quoted(wrong[0])} {problem} ({len(wrong)} in all): the files are not whole"
            )
    return model.eval(), stored


def _reader(path: Path, name: str) -> tuple[Callable[[], Any], str]:
    """Return a function that loads a model with a report, and how its weights are quantised.

    Raises NumcError for weights that cannot be taken as they are.
    """
    if path.is_file():
        from numc.frontends.pytorch import gguf

        reader = gguf.header(path)
        return functools.partial(gguf.read, path, reader, _REPORTING), gguf.types(reader)
    from numc.frontends.pytorch.quantised.checkpoint import check_plain, dequantised, quantised

    config = _read(path / _CONFIG, name)
    if (stored := quantised(config)) is None:
        check_plain([file for file in _weight_files(path, config) if file.is_file()])
        return functools.partial(_from_files, path), ""
    return functools.partial(_with_weights, path, dequantised(_weight_files(path, config), stored)), str(stored)


def _weight_files(path: Path, config: dict[str, Any]) -> list[Path]:
    """Return the files that transformers reads weights from."""
    index = _read(path / _INDEX, "")
    named = sorted(set(index["weight_map"].values())) if index else [config.get("transformers_weights") or _WEIGHTS]
    return [path / file for file in named]


def _from_files(path: Path) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(
        path, local_files_only=True, trust_remote_code=False, use_safetensors=True, dtype=torch.float32, **_REPORTING
    )


def _with_weights(path: Path, weights: dict[str, Any]) -> Any:
    """Load a model as `_from_files` does, with weights in the place of those in its files."""
    import torch
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig, GenerationConfig

    config = AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    for part in (config, config.get_text_config()):
        vars(part).pop("quantization_config", None)
    architecture = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    loaded = architecture.from_pretrained(None, config=config, state_dict=weights, dtype=torch.float32, **_REPORTING)
    if (path / "generation_config.json").is_file():
        loaded[0].generation_config = GenerationConfig.from_pretrained(path, local_files_only=True)
    return loaded


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return shortened(lines[0] if lines else type(error).__name__, 200)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the progress bars and warnings of transformers, about which a user can do nothing."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def logits_of(folder: str | os.PathLike[str], windows: Any) -> tuple[Any, Any]:
    """Return a module that gives the logits of a folder's model, and example inputs: one window.

    windows: tokens [windows, length]. Raises NumcError if the model does not take them.
    """
    import torch

    language = LanguageModel(folder)
    if not hasattr(windows, "dtype") or windows.ndim != 2 or windows.size == 0 or str(windows.dtype) != "int64":
        wanted = "tokens, int64 [windows, length], as numc.token_windows cuts them"
        raise NumcError(f"{language.name}: a language model is compared on {wanted}: give --tokens FILE")
    length = int(windows.shape[1])
    if language.context is not None and length > language.context:
        limit = f"its context has {language.context}: give a smaller --length"
        raise NumcError(f"{language.name}: windows of {length} tokens, {limit}")
    language.check_tokens(int(windows.max()))
    return logits(language), (torch.zeros((1, length), dtype=torch.int64),)


def logits(language: LanguageModel) -> Any:
    """Return a module that gives the logits of all tokens from ``input_ids``, int64 [batch, length]."""
    import torch

    class LanguageModelLogits(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = language.model

        def forward(self, input_ids: torch.Tensor) -> Any:
            every = torch.ones_like(input_ids)  # else transformers looks for several texts in a window
            return self.model(input_ids=input_ids, attention_mask=every, use_cache=False).logits

    return LanguageModelLogits().eval()


def load(folder: str | os.PathLike[str], fixed: Fixed) -> Imported:
    """Import the logits of a folder's model. Batch and length are free, up to its context, unless they are fixed.

    Raises NumcError for a folder that cannot be read, and for what is fixed of anything but ``input_ids``.
    """
    import torch

    from numc.frontends.pytorch.load import load as load_module

    language = LanguageModel(folder)
    for name, value in fixed.items():
        if name != _INPUT or not isinstance(value, tuple) or len(value) != 2:
            raise NumcError(f"{language.name}: {quoted(name)}: want --shape {_INPUT}=BATCHxLENGTH, or none")
    if _INPUT in fixed:
        imported = load_module(logits(language), (torch.zeros(fixed[_INPUT], dtype=torch.int64),))
        return replace(imported, quantised=language.quantised)
    length = torch.export.Dim("length", max=language.context) if language.context else torch.export.Dim("length")
    example = torch.zeros((2, min(8, language.context or 8)), dtype=torch.int64)
    free = {_INPUT: {0: torch.export.Dim("batch"), 1: length}}
    imported = load_module(logits(language), (example,), dynamic_shapes=free)
    return replace(imported, quantised=language.quantised)
