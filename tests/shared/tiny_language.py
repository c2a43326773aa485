"""Language models of transformers that are tiny, and folders of them with a tokenizer of bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY, CONTEXT = 264, 48
transformers.utils.logging.disable_progress_bar()  # it would be part of what a command prints


def llama(layers: int = 1, **settings: Any) -> Any:
    """A Llama of random weights with grouped heads."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = {"vocab_size": VOCABULARY, "num_hidden_layers": layers, "max_position_embeddings": CONTEXT, **sizes}
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**config, **special, **settings})).eval()


def gpt2(layers: int = 1, **settings: Any) -> Any:
    """A GPT-2 of random weights."""
    torch.manual_seed(0)
    config = {"vocab_size": VOCABULARY, "n_layer": layers, "n_embd": 32, "n_head": 4, "n_positions": CONTEXT}
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**{**config, **special, **settings})).eval()


def save(model: Any, folder: Path) -> Path:
    """Write a model with a tokenizer whose tokens are the bytes, after eight special ones."""
    model.save_pretrained(folder)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<pad>", "<s>", "</s>", *(f"<{n}>" for n in range(5))]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=alphabet)
    tokenizer.train_from_iterator([], trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>")
    fast.save_pretrained(folder)
    return folder
