"""Measures a checkpoint with a LoRA adapter in PyTorch, with transformers and PEFT: the work of checkpoints.ts.

Usage: checkpoints.py FOLDER float32|bfloat16 THREADS. A line of input is a request, {"work": "decoding", "batch": 8,
"prompt": 128, "reply": 64} or {"work": "training", "batch": 4, "length": 256, "decisions": 64}, a line of output its
answer: {"tokensPerSecond": 250.0, "peakBytes": 2000000000}, or {"error": "..."}.
"""

import json
import resource
import sys
import time

import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

projections = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def generate(model, batch: int, prompt: int, reply: int, cache: str) -> float:
    """Sampled tokens per second, their prompts included in the time."""
    model.eval()
    tokens = torch.randint(0, 400, (batch, prompt))
    started = time.perf_counter()
    made = model.generate(
        input_ids=tokens,
        attention_mask=torch.ones_like(tokens),
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        min_new_tokens=reply,
        max_new_tokens=reply,
        pad_token_id=0,
        cache_implementation=cache,
    )
    seconds = time.perf_counter() - started
    assert made.shape[1] == prompt + reply, made.shape
    return batch * reply / seconds


faster_cache = {}


def decode(model, batch: int, prompt: int, reply: int) -> float:
    """With the faster of the two caches, which the first call for a batch size finds out."""
    if batch not in faster_cache:
        rates = {cache: generate(model, batch, prompt, reply, cache) for cache in ("dynamic", "static")}
        faster_cache[batch] = max(rates, key=rates.get)
    return generate(model, batch, prompt, reply, faster_cache[batch])


def train(model, optimizer, batch: int, length: int, decisions: int) -> float:
    """Trained tokens per second of one step: the head sees only the positions that predict the last `decisions`."""
    model.train()
    tokens = torch.randint(0, 400, (batch, length))
    started = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    causal = model.base_model.model
    hidden = causal.model(input_ids=tokens, use_cache=False).last_hidden_state
    logits = causal.lm_head(hidden[:, length - decisions - 1 : length - 1])
    loss = F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, length - decisions :].flatten())
    loss.backward()
    optimizer.step()
    return batch * length / (time.perf_counter() - started)


if __name__ == "__main__":
    folder, dtype, threads = sys.argv[1:]
    torch.set_num_threads(int(threads))
    torch.manual_seed(1)
    base = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
    model = get_peft_model(base, LoraConfig(r=16, lora_alpha=32, target_modules=projections))
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    for line in sys.stdin:
        request = json.loads(line)
        work = request.pop("work")
        try:
            rate = decode(model, **request) if work == "decoding" else train(model, optimizer, **request)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
            answer = {"tokensPerSecond": rate, "peakBytes": peak}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
