"""Prints how far the logits of an adapter and of a merged checkpoint are from a reference, as JSON.

    python compare.py BASE ADAPTER MERGED REFERENCE

PEFT loads ADAPTER onto BASE, transformers loads MERGED; REFERENCE has `tokens`, `mask` and `adapter.logits`.
"""

import json
import sys

import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

base, adapter, merged, reference = sys.argv[1:]
expected = load_file(reference)
mask = expected["mask"]


def load(folder):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    if hasattr(model.model.embed_tokens, "embed_scale"):
        # As in the stored format.
        scale = model.model.embed_tokens.embed_scale
        scale.copy_(scale.to(torch.bfloat16))
    return model


def difference(model):
    with torch.no_grad():
        logits = model.eval()(input_ids=expected["tokens"], attention_mask=mask).logits * mask[..., None]
    return (logits - expected["adapter.logits"]).abs().max().item()


print(
    json.dumps(
        {
            "adapter": difference(PeftModel.from_pretrained(load(base), adapter)),
            "merged": difference(load(merged)),
            "format": str(AutoModelForCausalLM.from_pretrained(merged).dtype),
        }
    )
)
