"""What transformers makes of texts and conversations, with the tokenizer of a folder: `reference.py <folder> <count>`.

Writes JSON: `texts`, each with its tokens and what they decode to, and `prompts`, conversations with their tokens; null
where the template refuses one.
"""

import json
import random
import sys
import unicodedata
from pathlib import Path

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast
from transformers.utils.chat_template_utils import _compile_jinja_template

folder, count = Path(sys.argv[1]), int(sys.argv[2])
chance = random.Random(11)
classes = {}
for code in range(0x110000):
    if not 0xD800 <= code < 0xE000:
        classes.setdefault(unicodedata.category(chr(code)), []).append(chr(code))
pieces = (
    ["don't", "I'LL", "we've", "ſ", "ℳ", "  ", "\n\n", "\r\n", "\t", "12345678", "٣٤٥", "²³", "½", "中文字", "한국어", "العربية"]
    + ["हिन्दी", "👩‍👩‍👧", "e\u0301", "İ", "ß", "ﬀ", "\u00a0", "\u200b", "\ufeff", "\u2028", "\x1c", "\x85", "</s>", "_", "a_b", "=>"]
    + ["▁", "> </", "<table>", "<unused7>", "<0x41>", " " * 40, "\n" * 33, "\t\t"]
    + ["...", "http://x.y/z?q=1", '{"a": 1}', "//", "'s", "'S", "'ſ", "K", "𝐀", "𐐀", "\U00040000", "\x04\x06\x13", "ء", "ⅷ", "①", "〇", "<b>"]
)


def character():
    kind = chance.random()
    if kind < 0.25:
        return chr(chance.randrange(128))
    if kind < 0.5:
        return chr(chance.randrange(0x2000))
    return chance.choice(classes[chance.choice(list(classes))])


texts = ["".join(character() for _ in range(chance.randrange(1, 40))) for _ in range(count)]
texts += ["".join(chance.choice(pieces) + chance.choice(["", "", " ", "  ", "\n"]) for _ in range(chance.randrange(1, 25))) for _ in range(count)]
texts += [f"a{chr(code)}b {chr(code)}{chr(code)}" for code in range(1, 0x3000) if unicodedata.category(chr(code)) != "Cn"]

file = json.loads((folder / "tokenizer.json").read_text())
whole = Tokenizer.from_str(json.dumps(file))
# A text never has an added token here, whatever it looks like, but for what SentencePiece defines as text.
defined = [token for token in file["added_tokens"] if file["model"].get("byte_fallback") and not token["special"]]
plain = Tokenizer.from_str(json.dumps({**file, "added_tokens": defined}))


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def call(name, arguments, number=0):
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


def result(text, number=0):
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": text}


system = {"role": "system", "content": "You are kind — and brief.\nNo 'quotes' <b>."}
tool = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Wetter für eine Stadt, in °C & <b>bold</b>.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string", "enum": ["Zürich", "東京"]}, "days": {"type": "integer", "minimum": 1}}, "required": ["city"]},
    },
}
other = {"type": "function", "function": {"name": "run", "description": "Runs code.", "parameters": {"type": "object", "properties": {"code": {"type": "string"}}}}}
one = [call("get_weather", {"city": "Zürich", "days": 3})]
two = [*one, call("run", {"code": 'print("hi")\n# 👩‍👩‍👧\t<tag>'}, 1)]
conversations = [
    ([user("Hello")], None, True),
    ([system, user("  Two\n\n lines  ")], None, True),
    ([system, user("A"), assistant(" B \n"), user("C"), assistant("D")], None, False),
    ([system, user("e\u0301 ١٢٣ 12345 \ufeff 👩‍👩‍👧"), assistant('{"a": 1}'), user("don't")], None, True),
    ([user("Write code"), assistant("```python\ndef f(x):\n    return x ** 2\n```"), user("Thanks")], None, True),
    ([user("Weather?")], [tool], True),
    ([system, user("Weather?")], [tool, other], True),
    ([system, user("Weather?"), assistant("", tool_calls=one), result("21.5")], [tool], True),
    ([user("Weather?"), assistant("Let me see.", tool_calls=one), result('{"temperature": 21.5}'), assistant("21.5 °C"), user("And now?")], [tool], True),
    ([user("Both"), assistant("", tool_calls=two), result("21"), result("hi", 1), assistant("Done")], [tool, other], False),
    ([user("Why"), assistant("So", reasoning_content="\nBecause 1 < 2\n"), user("Really"), assistant("Yes", reasoning_content="Hm")], None, False),
    ([user("Why"), assistant("", reasoning_content="Look", tool_calls=one), result("3"), assistant("Three", reasoning_content="Good")], [tool], True),
]
tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)


# Such a template writes calls of a message without content only, and appends their arguments to a text. transformers 5
# leaves out a content that is None, which the template refuses.
without_content = "['content'] is none" in tokenizer.chat_template


def taken(message):
    if "tool_calls" not in message:
        return message
    calls = [{**call, "function": {**call["function"], "arguments": json.dumps(call["function"]["arguments"], separators=(",", ":"), ensure_ascii=False)}} for call in message["tool_calls"]]
    return {**message, "content": message["content"] or None, "tool_calls": calls}


def prompt(messages, tools, follows):
    # The name that gpt-oss has for it.
    messages = [{**message, **({"thinking": message["reasoning_content"]} if "reasoning_content" in message else {})} for message in messages]
    try:
        if without_content:
            template = _compile_jinja_template(tokenizer.chat_template)
            text = template.render(messages=[taken(message) for message in messages], tools=tools, add_generation_prompt=follows, **tokenizer.special_tokens_map)
            return whole.encode(text, add_special_tokens=False).ids
        return tokenizer.apply_chat_template(messages, tools=tools, add_generation_prompt=follows, return_dict=False, date_string="26 Jul 2026")
    except Exception:  # A template may refuse, such as two calls at once.
        return None


json.dump(
    {
        "texts": [[text, ids := plain.encode(text, add_special_tokens=False).ids, whole.decode(ids, skip_special_tokens=True)] for text in texts],
        "prompts": [
            {"messages": messages, "tools": tools, "follows": follows, "tokens": prompt(messages, tools, follows)} for messages, tools, follows in conversations
        ],
    },
    sys.stdout,
)
