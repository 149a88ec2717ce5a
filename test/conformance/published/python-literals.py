"""Reads calls as Python's own parser does.

    python python-literals.py < calls.json

Takes a JSON list of texts such as "f(a=1, b='x')" and prints a list of what Python makes of each: the function's name
and the arguments as JSON; null if the text is no call with keyword arguments that are literals JSON has.
"""

import ast
import json
import sys
import warnings

warnings.simplefilter("ignore")


def value_of(node):
    if isinstance(node, ast.Constant):
        if node.value is None or isinstance(node.value, (bool, int, float, str)):
            return node.value
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        value = value_of(node.operand)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return -value if isinstance(node.op, ast.USub) else value
    elif isinstance(node, ast.List):
        return [value_of(item) for item in node.elts]
    elif isinstance(node, ast.Dict):
        keys = [None if key is None else value_of(key) for key in node.keys]
        if all(isinstance(key, str) for key in keys):
            return dict(zip(keys, map(value_of, node.values)))
    raise ValueError


def call_of(text):
    try:
        call = ast.parse(text, mode="eval").body
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and not call.args:
            return [call.func.id, json.dumps({one.arg: value_of(one.value) for one in call.keywords}, allow_nan=False)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    return None


print(json.dumps([call_of(text) for text in json.load(sys.stdin)]))
