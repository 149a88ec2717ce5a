"""Reads each text of a JSON list as Harbor reads `task.toml`, and writes what it read as Harbor does."""

import json
import sys
import tomllib
import warnings

from harbor.models.task.config import TaskConfig

warnings.simplefilter("ignore")


def read(text):
    try:
        config = TaskConfig.model_validate_toml(text)
    except Exception as error:
        return {"refusal": str(error)}
    return {"config": config.model_dump(mode="json"), "written": write(config)}


def write(config):
    """Null where Harbor writes what is no TOML, as with some backslashes."""
    text = config.model_dump_toml()
    try:
        # Not always the same as `config`: an empty `steps` becomes a field of the table before it.
        again = TaskConfig.model_validate_toml(text)
    except tomllib.TOMLDecodeError:
        return None
    return {"text": text, "config": again.model_dump(mode="json")}


json.dump([read(text) for text in json.load(sys.stdin)], sys.stdout)
