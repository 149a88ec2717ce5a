"""Measures the architecture of `martingale-tiny` in PyTorch, with the work of test/bench/engine.ts.

Usage: engine.py THREADS. A line of input is a request such as {"work": "decoding", "variant": "eager", "batch": 8}, a line
of output its answer: {"tokensPerSecond": 25000.0}, or {"error": "..."}. The first request for a batch size compiles.
"""

import json
import logging
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

vocabulary, width, layers, heads, context, expansion, previous = 512, 128, 2, 4, 512, 4, 2
prompt_tokens, reply_tokens, sequence_tokens = 16, 64, 128
# Of one measurement.
sampled_tokens = 16_384
longest = prompt_tokens + reply_tokens


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width, bias=False)
        self.attention_output = nn.Linear(width, width, bias=False)
        self.mlp_up = nn.Linear(width, expansion * width, bias=False)
        self.mlp_down = nn.Linear(expansion * width, width, bias=False)

    def forward(self, state, attend):
        """`attend` mixes the values of queries, keys and values of shape [batch, heads, steps, width of a head]."""
        batch, steps, _ = state.shape
        packed = self.query_key_value(self.attention_norm(state))
        projections = (part.view(batch, steps, heads, -1).transpose(1, 2) for part in packed.split(width, dim=2))
        mixed = attend(*projections).transpose(1, 2).reshape(batch, steps, width)
        state = state + self.attention_output(mixed)
        return state + self.mlp_down(F.relu(self.mlp_up(self.mlp_norm(state))).square())


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.before = nn.ModuleList(nn.Embedding(vocabulary, width) for _ in range(previous))
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens, positions, attends, first_wanted):
        """Logits from the step `first_wanted` on. `tokens` [batch, previous + steps]: each step's token, after two more."""
        steps = tokens.shape[1] - previous
        state = self.token(tokens[:, previous:]) + self.position(positions)
        for distance, embedding in enumerate(self.before, 1):
            state = state + embedding(tokens[:, previous - distance : previous - distance + steps])
        for layer, attend in zip(self.layers, attends):
            state = layer(state, attend)
        return self.head(self.norm(state[:, first_wanted:]))


def sample(model, tokens, positions, attends):
    """The next token of each row, and its log-probability."""
    logprobs = model(tokens, positions, attends, -1)[:, 0].log_softmax(-1)
    # Dividing by exponentially distributed numbers is how torch.multinomial draws; written out, it can be compiled too.
    chosen = (logprobs.exp() / torch.empty_like(logprobs).exponential_()).argmax(-1, keepdim=True)
    return chosen, logprobs.gather(1, chosen)


def sample_eager(model, tokens, positions, first, caches):
    """Attends to the filled part of the caches: the least arithmetic."""
    end = first + len(positions)

    def attend_with(keys, values):
        def attend(query, key, value):
            keys[:, :, first:end], values[:, :, first:end] = key, value
            return F.scaled_dot_product_attention(
                query, keys[:, :, :end], values[:, :, :end], is_causal=len(positions) > 1
            )

        return attend

    return sample(model, tokens, positions, [attend_with(*cache) for cache in caches])


def sample_static(model, tokens, positions, _first, caches):
    """
    Attends to the whole caches under a mask, so that the shapes of all steps are the same. Written out, because the
    compiler makes a faster kernel of it than the one behind scaled_dot_product_attention.
    """
    mask = torch.where(torch.arange(longest) <= positions[:, None], 0.0, float("-inf"))

    def attend_with(keys, values):
        def attend(query, key, value):
            keys[:, :, positions], values[:, :, positions] = key, value
            scores = query @ keys.transpose(2, 3) * (width // heads) ** -0.5 + mask
            return scores.softmax(-1) @ values

        return attend

    return sample(model, tokens, positions, [attend_with(*cache) for cache in caches])


@torch.inference_mode()
def decode(model, batch: int, step) -> float:
    """Sampled tokens per second."""
    rounds = max(1, round(sampled_tokens / (batch * reply_tokens)))
    shape = (batch, heads, longest, width // heads)
    started = time.perf_counter()
    for _ in range(rounds):
        caches = [(torch.zeros(shape), torch.zeros(shape)) for _ in range(layers)]
        tokens = torch.zeros(batch, previous + longest, dtype=torch.long)
        tokens[:, previous : previous + prompt_tokens] = torch.randint(0, 400, (batch, prompt_tokens))
        first = 0
        for end in range(prompt_tokens, longest):
            chosen, logprobs = step(model, tokens[:, first : end + previous], torch.arange(first, end), first, caches)
            tokens[:, end + previous] = chosen[:, 0]
            # A sampler hands each token and its log-probability on.
            chosen.tolist(), logprobs.tolist()
            first = end
    return rounds * batch * reply_tokens / (time.perf_counter() - started)


def attend_causally(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def loss_of(model, tokens):
    """Cross-entropy of all tokens after the prompt."""
    positions = torch.arange(sequence_tokens - 1)
    logits = model(tokens[:, :-1], positions, [attend_causally] * layers, prompt_tokens - 1)
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, previous + prompt_tokens :].flatten())


def train(model, batch: int, loss_of) -> float:
    """Trained tokens per second, with clipped gradients and Adam."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    tokens = torch.randint(0, 400, (batch, previous + sequence_tokens))
    steps = max(2, round(64 / batch))
    started = 0.0
    for step in range(1 + steps):
        optimizer.zero_grad(set_to_none=True)
        loss_of(model, tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step == 0:
            started = time.perf_counter()
    return steps * batch * sequence_tokens / (time.perf_counter() - started)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    torch.set_num_threads(int(sys.argv[1]))
    torch.manual_seed(1)
    model = Model()
    # Each batch size is a graph of its own, and decoding has two: the prompts, and one token.
    torch._dynamo.config.recompile_limit = 64
    works = {
        ("decoding", "eager"): (decode, sample_eager),
        ("decoding", "compiled"): (decode, torch.compile(sample_static, dynamic=False)),
        ("training", "eager"): (train, loss_of),
        ("training", "compiled"): (train, torch.compile(loss_of, dynamic=False)),
    }
    for line in sys.stdin:
        request = json.loads(line)
        try:
            measure, function = works[request["work"], request["variant"]]
            answer = {"tokensPerSecond": measure(model, request["batch"], function)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
