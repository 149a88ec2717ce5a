"""Takes the place of peft, of which SkyRL's JAX backend needs only the file that describes an adapter."""

import json
import pathlib


class LoraConfig:
    def __init__(self, **fields):
        self.fields = fields

    def save_pretrained(self, folder):
        text = json.dumps({"peft_type": "LORA", "task_type": "CAUSAL_LM", **self.fields})
        pathlib.Path(folder, "adapter_config.json").write_text(text)
