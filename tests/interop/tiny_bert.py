"""A BERT of two small layers that knows a few words, made here so that nothing is downloaded.

Its weights are a formula, so that every version of torch, here and beside arthur-bench, makes the same model.
"""

from __future__ import annotations

from pathlib import Path

LAYERS = 2
WORDS = "as an ai language model i don ' t have personal opinions , emotions or beliefs the cat sat on mat dog ran away"


def make(folder: Path, *, limited: bool = False) -> str:
    """Write model and tokenizer into a folder; returns its name. A `limited` tokenizer says how much it takes."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    known = {word: number for number, word in enumerate(dict.fromkeys(special + WORDS.split()))}
    tokenizer = Tokenizer(models.WordLevel(known, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [("[CLS]", known["[CLS]"]), ("[SEP]", known["[SEP]"])]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), special, strict=True))
    config = transformers.BertConfig(
        vocab_size=len(known),
        hidden_size=32,
        num_hidden_layers=LAYERS,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    model = transformers.BertModel(config)
    with torch.no_grad():
        for number, (name, weights) in enumerate(sorted(model.named_parameters())):
            places = torch.arange(weights.numel(), dtype=torch.float64).reshape(weights.shape)
            values = torch.sin(places * places * 0.37 + places * 1.7 + number)
            weights.copy_(1.0 + 0.1 * values if name.endswith("LayerNorm.weight") else 0.3 * values)
    model.save_pretrained(folder)
    limit = {"model_max_length": 64} if limited else {}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names, **limit).save_pretrained(folder)
    return str(folder)
