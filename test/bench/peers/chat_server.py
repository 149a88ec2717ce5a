"""`transformers serve` with continuous batching and a small Llama. Usage: chat_server.py TOKENIZER TEMPLATE INTERMEDIATE
FOLDER. Writes the model into the folder, prints {"port": PORT} when it is about to listen, and ends with its input."""

import json
import os
import socket
import sys
import threading

# Other things than the port are printed too.
answers, sys.stdout = sys.stdout, sys.stderr
os.environ["HF_HUB_OFFLINE"] = "1"

from transformers import PreTrainedTokenizerFast
from transformers.cli.serve import Serve

from grpo import tiny_llama

# Without a bound, the cache takes most of the memory, and the first request most of a minute.
CACHE_BLOCKS = 1024
# Masks of attention have this many rows, each as long as the cache: with the default of 8,192 they take 9 GB.
BATCH_TOKENS = 1024


def end_with_input() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    tokenizer_file, template_file, intermediate, folder = sys.argv[1:]
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=tokenizer_file, pad_token="<|reserved_7|>")
    with open(template_file, encoding="utf-8") as file:
        tokenizer.chat_template = file.read()
    tokenizer.save_pretrained(folder)
    model = tiny_llama(int(intermediate))
    # Nothing ends a reply before its limit.
    model.config.eos_token_id = model.generation_config.eos_token_id = None
    model.generation_config.do_sample = True
    model.generation_config.top_k = 0
    model.save_pretrained(folder)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    threading.Thread(target=end_with_input, daemon=True).start()
    print(json.dumps({"port": port}), file=answers, flush=True)
    Serve(
        force_model=folder,
        continuous_batching=True,
        cb_num_blocks=CACHE_BLOCKS,
        cb_max_batch_tokens=BATCH_TOKENS,
        device="cpu",
        host="127.0.0.1",
        port=port,
    )
