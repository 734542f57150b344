"""A pass for Olive (`olive-ai`): plans the memory of an ONNX model within a workflow.

Olive finds the pass by a package config, which replaces its own: `python -m memc.olive FILE.json` writes one with
Olive's passes and this one, for `olive run --config workflow.json --package-config FILE.json`.
"""

import json
import pathlib
import re
import sys
from typing import Any, Dict, Union

from olive.model import ONNXModelHandler
from olive.model.utils import resolve_onnx_path
from olive.package_config import OlivePackageConfig
from olive.passes import Pass
from olive.passes.pass_config import PassConfigParam
from olive.resource_path import LocalFolder

import memc

# Levels of graph optimization in Olive's session options, by their names in recipes.
_LEVELS = {"ORT_DISABLE_ALL": 0, "ORT_ENABLE_ALL": 99}


def _params():
    size = Union[int, str]
    return {
        "budget": PassConfigParam(
            type_=Union[size, Dict[str, size]],
            description="Upper limit of the arena: bytes, '512KiB', '60%' of the peak in file order, or by space.",
        ),
        "slowdown": PassConfigParam(
            type_=Union[float, str], description="Extra time allowed for less memory, in percent of the modelled time."
        ),
        "dims": PassConfigParam(type_=Dict[str, int], description="Extents of symbolic dimensions by name."),
        "exact": PassConfigParam(
            type_=bool, default_value=False, description="Allow only rewrites that keep every bit of the results."
        ),
        "std_ops": PassConfigParam(
            type_=bool, default_value=False, description="Make no operators outside the ONNX standard."
        ),
        "runtime": PassConfigParam(
            type_=str,
            default_value="ort",
            description="Runtime that executes the model: 'ort' (a stock session), 'arena' or 'player'.",
        ),
        "target": PassConfigParam(type_=str, description="Target that comes with memc, or the path of a file."),
        "effort": PassConfigParam(
            type_=size, description="Search effort: 'fast', 'default', 'max', or a number of search nodes."
        ),
        "recipe": PassConfigParam(
            type_=str,
            default_value="smallest",
            description="Session options for later passes and evaluators: 'smallest' runs the nodes as planned, 'fast' "
            "keeps the session's optimizations.",
        ),
        "options": PassConfigParam(
            type_=Dict[str, Any],
            description="Every other option of `memc optimize`, with underscores: {'time_limit': 10, 'link': [...]}.",
        ),
    }


class MemcMemoryPass(Pass):
    """Plans a model so that it runs in less memory, and writes the layout beside it."""

    @classmethod
    def _default_config(cls, accelerator_spec):
        return _params()

    @classmethod
    def validate_config(cls, config, accelerator_spec):
        """Whether the pass can run with this config."""
        return super().validate_config(config, accelerator_spec) and config.recipe in ("smallest", "fast")

    def _run_for_config(self, model, config, output_model_path):
        if not isinstance(model, ONNXModelHandler):
            raise NotImplementedError("MemcMemoryPass plans ONNX models: convert the model first")
        output = pathlib.Path(resolve_onnx_path(output_model_path, "model.onnx"))
        output.parent.mkdir(parents=True, exist_ok=True)
        result = memc.optimize(str(model.model_path), str(output), **_options(config))
        planned = ONNXModelHandler(
            # A folder: layout and weights lie beside the model.
            model_path=LocalFolder({"path": output.parent}),
            onnx_file_name=output.name,
            inference_settings=_settings(model.inference_settings, result, config),
            use_ort_extensions=model.use_ort_extensions,
        )
        files = set((model.model_attributes or {}).get("additional_files") or [])
        planned.model_attributes = {
            **(model.model_attributes or {}),
            "additional_files": sorted(files | {result.layout_path}),
            "memc": {key: result.summary[key] for key in ("peak", "arena", "before", "bound", "order_optimal", "offsets_optimal", "weights")},
        }
        return planned


def _options(config):
    """Returns the keywords of `memc.optimize` for a config."""
    given = {key: getattr(config, key) for key in _params() if key not in ("recipe", "options")}
    given = {key: value for key, value in given.items() if value is not None}
    if given.get("runtime") == "ort" and config.recipe == "smallest":
        # Olive's sessions cannot set the order of nodes.
        given["anchors"] = True
    return {**given, **(config.options or {})}


def _settings(settings, result, config):
    """Returns the inference settings of a planned model: those of the recipe, as far as Olive has them."""
    settings = dict(settings or {})
    if config.runtime != "ort":
        return settings or None
    recipe = memc.ort.recipe(result, config.recipe)
    options = {**settings.get("session_options", {}), "execution_mode": 0}
    options["graph_optimization_level"] = next(level for name, level in _LEVELS.items() if name in recipe)
    entries = dict(re.findall(r'add_session_config_entry\("([^"]+)", "([^"]+)"\)', recipe))
    if entries:
        options["extra_session_config"] = {**options.get("extra_session_config", {}), **entries}
    return {**settings, "session_options": options}


def package_config():
    """Returns a package config with Olive's own passes and memc's."""
    with open(OlivePackageConfig.get_default_config_path(), encoding="utf-8") as file:
        config = json.load(file)
    config["passes"].update(json.loads(pathlib.Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))["passes"])
    return config


def _main(words):
    if len(words) != 1:
        sys.exit("usage: python -m memc.olive FILE.json")
    pathlib.Path(words[0]).write_text(json.dumps(package_config(), indent=4) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _main(sys.argv[1:])
