"""The SHA-256 of each tensor of a GGUF file as float32, by its name: `tensors.py <file>`."""

import hashlib
import json
import sys

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

tensors = GGUFReader(sys.argv[1]).tensors
json.dump({tensor.name: hashlib.sha256(np.ascontiguousarray(dequantize(tensor.data, tensor.tensor_type), dtype="<f4")).hexdigest() for tensor in tensors}, sys.stdout)
