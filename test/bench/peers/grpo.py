"""Measures TRL's GRPO steps on a small Llama.

Usage: grpo.py TOKENIZER THREADS. A line of input is a request such as {"groups": 4, "rollouts": 8, "intermediate": 597,
"promptTokens": 16, "replyTokens": 60, "warmSteps": 3, "countedSteps": 10}, a line of output its answer: means of the
counted steps.
"""

import json
import os
import sys
import tempfile
import time
import warnings

# Other things than answers are printed too.
answers, sys.stdout = sys.stdout, sys.stderr
warnings.filterwarnings("ignore")
os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from datasets import Dataset
from datasets.utils.logging import disable_progress_bar
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, PrinterCallback, TrainerCallback
from transformers.utils import logging
from trl import GRPOConfig, GRPOTrainer

logging.set_verbosity_error()
disable_progress_bar()


def tiny_llama(intermediate: int) -> LlamaForCausalLM:
    torch.manual_seed(1)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=512,
            hidden_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=intermediate,
            max_position_embeddings=512,
            tie_word_embeddings=False,
            bos_token_id=None,
            eos_token_id=511,
            pad_token_id=511,
        )
    )


class Clock(TrainerCallback):
    """The rollouts of a step run before TRL says that it begins: a step lasts from the end of the one before."""

    def __init__(self):
        self.wall, self.cpu = [], []

    def on_step_end(self, *_, **__):
        self.wall.append(time.perf_counter())
        self.cpu.append(time.process_time())


def prompt(index: int, tokens: int) -> str:
    """Each letter with the space before it is a token."""
    return " ".join("abcdefgh"[(index // 8**place + place) % 8] for place in range(tokens))


def measure(tokenizer, request):
    groups, rollouts, warm, counted = (request[name] for name in ("groups", "rollouts", "warmSteps", "countedSteps"))
    # Like ours, a last step is not counted: it may end earlier.
    steps = warm + counted + 1
    prompts = [prompt(index, request["promptTokens"]) for index in range(groups * steps)]
    model = tiny_llama(request["intermediate"])
    clock = Clock()
    replies = []

    def reward(completions, completion_ids, **_):
        replies.extend(map(len, completion_ids))
        return [float(text.count("e")) for text in completions]

    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=model,
            processing_class=tokenizer,
            reward_funcs=reward,
            train_dataset=Dataset.from_dict({"prompt": prompts}),
            callbacks=[clock],
            args=GRPOConfig(
                output_dir=folder,
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                per_device_train_batch_size=groups * rollouts,
                num_generations=rollouts,
                max_completion_length=request["replyTokens"],
                generation_kwargs={"min_new_tokens": request["replyTokens"], "top_k": 0},
                max_steps=steps,
                learning_rate=7e-4,
                logging_steps=1000,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
            ),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()

    def mean(marks):
        return 1000 * (marks[warm + counted - 1] - marks[warm - 1]) / counted

    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "promptTokens": sum(len(tokenizer(text)["input_ids"]) for text in prompts) / len(prompts),
        "replyTokens": sum(replies) / len(replies),
        "milliseconds": mean(clock.wall),
        "cpuMilliseconds": mean(clock.cpu),
    }


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[2]))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=sys.argv[1], pad_token="<|reserved_7|>", eos_token="<|reserved_7|>", padding_side="left"
    )
    for line in sys.stdin:
        try:
            answer = measure(tokenizer, json.loads(line))
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
