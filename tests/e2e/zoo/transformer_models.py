"""Networks of the package transformers, built from small configurations: random weights."""

import os
from collections.abc import Callable

os.environ["HF_HUB_OFFLINE"] = "1"  # read when it is imported; nothing here asks for a file

import torch
from torch import Tensor
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    PretrainedConfig,
    PreTrainedModel,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
    WhisperConfig,
    WhisperForConditionalGeneration,
)
from transformers.modeling_layers import GradientCheckpointingLayer

from zoo import Program, Training, supervised

WORDS, WIDTH, LAYERS, HEADS, INNER = 1000, 128, 6, 4, 512
SHAPE = {
    "vocab_size": WORDS,
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": INNER,
}
ENDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}

Batch = Callable[[], dict[str, Tensor]]


def words(batch: int, length: int) -> Tensor:
    return torch.randint(3, WORDS, (batch, length))


def text() -> dict[str, Tensor]:
    """For a language model, which shifts the labels itself."""
    tokens = words(8, 128)
    return {"input_ids": tokens, "labels": tokens}


def text_of_some_length() -> dict[str, Tensor]:
    """32 to 512 words, as many in each text of a batch."""
    tokens = words(2, int(torch.randint(32, 513, ())))
    return {"input_ids": tokens, "labels": tokens}


def masked_text() -> dict[str, Tensor]:
    """A seventh of the words is to be guessed; texts are padded to a common length."""
    tokens = words(8, 128)
    masked = torch.rand(tokens.shape) < 0.15
    lengths = torch.randint(64, 129, (8, 1))
    return {
        "input_ids": tokens.masked_fill(masked, 1),
        "attention_mask": (torch.arange(128) < lengths).long(),
        "labels": tokens.masked_fill(~masked, -100),
    }


def pairs() -> dict[str, Tensor]:
    return {"input_ids": words(8, 128), "labels": words(8, 64)}


def images() -> dict[str, Tensor]:
    return {"pixel_values": torch.randn(16, 3, 64, 64), "labels": torch.randint(0, 10, (16,))}


def speech() -> dict[str, Tensor]:
    return {"input_features": torch.randn(4, 40, 400), "labels": words(4, 64)}


def gpt2(**options: object) -> GPT2Config:
    return GPT2Config(
        vocab_size=WORDS, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, **ENDS, **options
    )


def llama(**options: object) -> LlamaConfig:
    """Two heads share their keys and values."""
    return LlamaConfig(**SHAPE, num_key_value_heads=HEADS // 2, **ENDS, **options)


def bert(**options: object) -> BertConfig:
    return BertConfig(**SHAPE, pad_token_id=0, **options)


def t5(**options: object) -> T5Config:
    return T5Config(
        vocab_size=WORDS,
        d_model=WIDTH,
        d_kv=WIDTH // HEADS,
        d_ff=INNER,
        num_layers=4,
        num_heads=HEADS,
        feed_forward_proj="gated-gelu",
        decoder_start_token_id=0,
        **options,
    )


def vit(**options: object) -> ViTConfig:
    shape = {key: value for key, value in SHAPE.items() if key != "vocab_size"}
    options |= shape | {"hidden_dropout_prob": 0.1}
    return ViTConfig(image_size=64, patch_size=8, num_labels=10, **options)


def whisper(**options: object) -> WhisperConfig:
    return WhisperConfig(
        vocab_size=WORDS,
        num_mel_bins=40,
        d_model=WIDTH,
        encoder_layers=4,
        decoder_layers=4,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=INNER,
        decoder_ffn_dim=INNER,
        max_source_positions=200,
        dropout=0.1,
        decoder_start_token_id=1,
        **ENDS,
        **options,
    )


def mixtral(**options: object) -> MixtralConfig:
    """Four experts, two for each word: how many rows each of them gets differs in each step."""
    return MixtralConfig(
        **SHAPE | {"num_hidden_layers": 4, "intermediate_size": 256},
        num_key_value_heads=HEADS // 2,
        num_local_experts=4,
        num_experts_per_tok=2,
        output_router_logits=True,
        **ENDS,
        **options,
    )


def train(model: type[PreTrainedModel], config: PretrainedConfig, batch: Batch) -> Training:
    network = model(config)
    network.train()
    return supervised(
        network, lambda _: network(**batch()).loss, torch.optim.AdamW(network.parameters())
    )


def both(
    name: str,
    model: type[PreTrainedModel],
    config: Callable[..., PretrainedConfig],
    batch: Batch,
) -> dict[str, Program]:
    """As it is trained at best; and in plain operators, with the cache that it has by default."""
    fast = {"attn_implementation": "sdpa", "use_cache": False}
    plain = {"attn_implementation": "eager", "experts_implementation": "eager"}
    return {
        name: Program(
            lambda: train(model, config(**fast), batch), blocks=(GradientCheckpointingLayer,)
        ),
        # A router gives each expert other rows in each step.
        f"{name}_eager": Program(
            lambda: train(model, config(**plain), batch), varies=name == "mixtral"
        ),
    }


PROGRAMS = (
    both("gpt2", GPT2LMHeadModel, gpt2, text)
    | both("llama", LlamaForCausalLM, llama, text)
    | both("bert", BertForMaskedLM, bert, masked_text)
    | both("t5", T5ForConditionalGeneration, t5, pairs)
    | both("vit", ViTForImageClassification, vit, images)
    | both("whisper", WhisperForConditionalGeneration, whisper, speech)
    | both("mixtral", MixtralForCausalLM, mixtral, text)
    | {
        "gpt2_lengths": Program(
            lambda: train(GPT2LMHeadModel, gpt2(), text_of_some_length), varies=True
        )
    }
)
