"""Prints the log-probability of each token but the first, as a JSON list.

    python start.py make BASE ADAPTER TOKENS    # of BASE with a random adapter, which PEFT writes to ADAPTER
    python start.py load MERGED TOKENS          # of a whole checkpoint

TOKENS is a JSON list of ids.
"""

import json
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

mode, folder, *rest = sys.argv[1:]
tokens = torch.tensor([json.loads(rest[-1])])
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
if mode == "make":
    torch.manual_seed(7)
    targets = ["q_proj", "o_proj", "up_proj"]
    config = LoraConfig(r=5, lora_alpha=7, target_modules=targets, lora_dropout=0.1, task_type="CAUSAL_LM")
    model = get_peft_model(model, config)
    with torch.no_grad():
        for name, values in model.named_parameters():
            if "lora_" in name:
                values.normal_(std=0.2)
    model.save_pretrained(rest[0])
with torch.no_grad():
    logprobs = model.eval()(input_ids=tokens).logits.log_softmax(-1)
print(json.dumps(logprobs[0, :-1].gather(1, tokens[0, 1:, None])[:, 0].tolist()))
