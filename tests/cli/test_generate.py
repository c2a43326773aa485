"""numc generate: the tokens of eager torch, the same text for the same seed, and one line for each wrong input."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from numc.support.errors import escaped


def _written(folder: Path, **files: str) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (
            {},
            "has no config.json: want a folder with config.json and *.safetensors, as save_pretrained of transformers",
        ),
        ({"config__json": "[1"}, "config.json is not a JSON object: want a folder"),
        ({"config__json": '{"auto_map": {"AutoModel": "x.Y"}}'}, "needs Python code of its own (auto_map), which numc"),
        ({"config__json": "{}"}, "has no weights: want *.safetensors: save_pretrained"),
        (
            {"config__json": "{}", "pytorch_model__bin": ""},
            "has weights in 'pytorch_model.bin', which are pickled, that is code: want *.safetensors",
        ),
        *(
            (
                {"config__json": "{}", "model__safetensors__index__json": json.dumps({"weight_map": {"w": name}})},
                f"model.safetensors.index.json names the file '{name}': only *.safetensors in the folder itself",
            )
            for name in ("../other.safetensors", "/etc/x.safetensors", "pytorch_model.bin", "a/b.safetensors")
        ),
        (
            {"config__json": "{}", "model__safetensors__index__json": '{"weight_map": {"w": "a.safetensors"}}'},
            "model.safetensors.index.json names the file 'a.safetensors', which is not there: copy it into the folder",
        ),
        (
            {"config__json": "{}", "model__safetensors__index__json": '{"weight_map": [1]}'},
            "model.safetensors.index.json has no weight_map from weights to files: want a folder",
        ),
        (
            {"config__json": '{"transformers_weights": "../w.bin"}'},
            "config.json names the file '../w.bin': only *.safetensors in the folder itself are read, which hold no",
        ),
        ({"config__json": '{"a": ' + "[" * 5000 + "]" * 5000 + "}"}, "config.json is not a JSON object: want a folder"),
    ],
)
def test_folders_that_are_refused(files: dict[str, str], reason: str, numc_run: Any, tmp_path: Path) -> None:
    _written(tmp_path / "model", **files)
    assert f"model: {reason}" in numc_run("generate", "model", "--prompt", "a").error


@pytest.mark.parametrize(
    ("file", "most"), [("config.json", 64), ("model.safetensors.index.json", 64), ("vocab.txt", 256)]
)
def test_files_that_are_too_large(file: str, most: int, numc_run: Any, tmp_path: Path) -> None:
    folder = _written(tmp_path / "model", config__json="{}", model__safetensors="")
    with open(folder / file, "wb") as large:
        large.truncate((most << 20) + (1 << 20))
    error = numc_run("generate", "model", "--prompt", "a").error
    assert error == f"model: '{file}' has {most + 1} MiB: at most {most} MiB are read"


def test_options_that_are_refused(numc_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def error(*options: object) -> Any:
        return numc_run("generate", "nowhere", "--prompt", "a", *options).error

    wanted = "want a folder with config.json and *.safetensors, as save_pretrained of transformers writes it"
    assert error() == f"nowhere: no such folder: {wanted}"
    (tmp_path / "nowhere").write_text("")
    assert error() == f"nowhere: is a file: {wanted}"
    likely = "leave it out for the most probable token"
    assert error("--temperature", "0") == f"--temperature 0: want above 0: {likely}"
    assert error("--top-p", "1.5") == f"--top-p 1.5: want above 0 to 1: {likely}"
    assert error("--target", "x86-64-v3") == "--target x86-64-v3: the model runs on this machine: leave it out"
    _written(tmp_path / "bare", config__json="{}", model__safetensors="")
    found = util.find_spec
    monkeypatch.setattr(
        "numc.frontends.pytorch.folder.find_spec", lambda name: None if name == "transformers" else found(name)
    )
    missing = "needs transformers, which is not installed: pip install 'numc[torch]' transformers"
    assert numc_run("generate", "bare", "--prompt", "a").error == f"bare: {missing}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 of one layer."""
    pytest.importorskip("transformers")
    import tiny_language

    return tiny_language.save(tiny_language.gpt2(), tmp_path_factory.mktemp("language") / "gpt2")


@pytest.mark.all
def test_folders_that_do_not_fit_their_files(folder: Path, numc_run: Any, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    def changed(name: str, change: Callable[[Path], object]) -> Path:
        change(Path(shutil.copytree(folder, tmp_path / name)))
        return tmp_path / name

    def error(where: Path, *options: object, prompt: str = "abc") -> Any:
        return numc_run("generate", where, "--prompt", prompt, *options).error

    def configured(where: Path, file: str, **settings: object) -> None:
        values = json.loads((where / file).read_text())
        (where / file).write_text(json.dumps({**values, **settings}))

    def weights(where: Path, change: Callable[[dict[str, Any]], object]) -> None:
        values = load_file(where / "model.safetensors")
        change(values)
        save_file(values, where / "model.safetensors", metadata={"format": "pt"})

    without = changed("without", lambda where: (where / "tokenizer.json").unlink())
    assert "without: there is no tokenizer: want tokenizer.json, vocab.json" in error(without)
    broken = changed("broken", lambda where: (where / "tokenizer.json").write_text("{}"))
    assert "broken: the tokenizer cannot be read: " in error(broken)
    code = changed("code", lambda where: configured(where, "tokenizer_config.json", auto_map={"AutoTokenizer": "x.Y"}))
    assert "code: needs Python code of its own (auto_map)" in error(code)
    other = changed("other", lambda where: configured(where, "config.json", model_type="nothing"))
    assert "other: not a causal language model that transformers can read: " in error(other)
    lost = changed("lost", lambda where: weights(where, lambda values: values.pop("transformer.ln_f.weight")))
    assert "lost: weight 'transformer.ln_f.weight' is missing (1 in all): the files are not whole" in error(lost)
    fewer = changed("fewer", lambda where: configured(where, "config.json", vocab_size=40))
    shape = "has another shape than the configuration says (1 in all): the files are not whole"
    assert f"fewer: weight 'transformer.wte.weight' {shape}" in error(fewer)
    weights(fewer, lambda values: values.update({"transformer.wte.weight": torch.zeros(40, 32)}))
    assert "the model knows 40 tokens, 0 to 39: use the tokenizer that it was trained with" in error(fewer)
    assert error(folder, prompt="") == "the text has no tokens: want at least one word"
    assert error(folder, "--max-new-tokens", 46) == (
        "the prompt has 3 tokens and 46 new ones are wanted, but the context of the model has 48: "
        "want a shorter prompt or a smaller --max-new-tokens"
    )


@pytest.mark.all
def test_a_text_is_that_of_eager_torch(folder: Path, numc_run: Any) -> None:
    import torch
    import transformers

    done = numc_run("generate", folder, "--prompt", "a cat", "--max-new-tokens", 9)
    assert done.status == 0, done.err
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ids = torch.tensor([tokenizer("a cat")["input_ids"]])
    tokens = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=9, do_sample=False)[0, 5:]
    assert done.out == escaped(tokenizer.decode(tokens, skip_special_tokens=True)) + "\n"


@pytest.mark.slow
def test_arithmetics_and_threads(folder: Path, numc_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No number of threads changes a text; the seed does, where tokens are drawn and where roundings are stochastic."""

    def tokens(*options: object) -> Any:
        given = ("generate", folder, "--prompt", "a cat", "--max-new-tokens", 30, "--json", "--temperature", 2.0)
        done = numc_run(*given, *options)
        assert done.status == 0, done.err
        return json.loads(done.out)["tokens"]

    for options in ((), ("--fma", "fmac(e6m9:sr8)"), ("--policy", "default bf16_1_1", "--top-k", 5)):
        found = []
        for threads, seed in (("1", 1), ("2", 1), ("2", 2)):
            monkeypatch.setenv("NUMC_NUM_THREADS", threads)
            found.append(tokens(*options, "--seed", seed))
        assert found[0] == found[1] != found[2]


@pytest.mark.all
def test_perplexity_is_that_of_torch(folder: Path, numc_run: Any, tmp_path: Path) -> None:
    """Windows of 16 with a stride of 8 over 40 tokens, as transformers' own recipe cuts them."""
    import torch
    import transformers

    tokens = np.random.default_rng(0).integers(3, 264, 40)
    tokens.astype("<u2").tofile(tmp_path / "val.bin")
    given = ("--length", 16, "--stride", 8, "--metric", "perplexity", "--fma", "fp32", "--no-stats", "--json")
    done = numc_run("compare", folder, "--tokens", "val.bin", *given)
    assert done.status == 0, done.err
    found = json.loads(done.out)["results"][0]["metrics"]["perplexity"]
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval().double()
    ids, losses, counted = torch.from_numpy(tokens)[None], 0.0, 0
    for start in range(0, 25, 8):
        window = ids[:, start : start + 16]
        labels = window.clone()
        labels[:, : -8 if start else 0] = -100
        count = int((labels[:, 1:] != -100).sum())
        losses += model(window, labels=labels).loss.item() * count
        counted += count
    assert counted == 39
    assert found == pytest.approx(np.exp(losses / counted), rel=1e-5)

    def error(*options: object) -> Any:
        return numc_run("compare", folder, *options).error

    np.save(tmp_path / "long.npy", np.arange(60))
    long = f"{folder}: windows of 49 tokens, its context has 48: give a smaller --length"
    assert error("--tokens", "long.npy", "--length", 49) == long
    np.save(tmp_path / "unknown.npy", np.arange(250, 270))
    known = "the model knows 264 tokens, 0 to 263: use the tokenizer that it was trained with"
    assert error("--tokens", "unknown.npy", "--length", 4) == f"{folder}: token 269: {known}"
    np.save(tmp_path / "floats.npy", np.ones((2, 3), np.float32))
    wanted = "tokens, int64 [windows, length], as numc.token_windows cuts them"
    reason = f"a language model is compared on {wanted}: give --tokens FILE"
    assert error("--data", "floats.npy") == f"{folder}: {reason}"


@pytest.mark.slow
def test_a_cache_of_8_bits(folder: Path, numc_run: Any) -> None:
    """Its size is said: a byte for each number, and a float32 scale for each token and head."""
    pieces = ("--prompt", "abc", "--max-new-tokens", "4", "--json")
    plain = json.loads(numc_run("generate", folder, *pieces).out)
    assert "kv_cache_bytes" not in plain
    for text, scales in (("e4m3fn", 0), ("int8", 4), ("e4m3fn:tensor", 4)):
        made = json.loads(numc_run("generate", folder, *pieces, "--kv-cache", text).out)
        tokens = len(made["prompt_tokens"]) + 3  # the last one is not read again
        assert made["kv_cache_bytes"] == 2 * tokens * 4 * (8 + scales)
        assert len(made["tokens"]) == 4


def test_a_cache_that_is_refused(numc_run: Any) -> None:
    error = numc_run("generate", "nowhere", "--prompt", "a", "--kv-cache", "e4m3").error
    assert error.startswith("--kv-cache 'e4m3': PyTorch and NVIDIA mean e4m3fn by e4m3: want e4m3fn, e5m2 or int8")
