"""The command line of all benches: models and folders, the binary, and what those that run models ask beside."""
import argparse
import os
import sys


def parser(description):
    """A parser for models and `--memc`, to which a bench adds its own options."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("models", nargs="+", metavar="FOLDER|MODEL", help="models, and folders with models below them")
    made.add_argument("--memc", default="target/release/memc", help="the binary")
    return made


def add_dims(made):
    made.add_argument("--dim", dest="dims", action="append", default=[], metavar="MODEL:NAME=N", type=lambda text: text.split(":", 1),
                      help="value of a symbolic extent of one model")


def add_choice(made, max_mb):
    """Which of the models are taken, for `corpus.chosen`."""
    made.add_argument("--max-mb", type=float, default=max_mb, metavar="N", help="leave out models with more weights outside their file")
    made.add_argument("--only", action="append", default=[], metavar="NAME", help="only the models of these names")


def parse(made):
    """The options by name; `models` are paths, `extra` is what stands behind `--` and is meant for `memc optimize`."""
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    found = vars(made.parse_args(words[:at]))
    return {**found, "models": model_files(found["models"]), "extra": words[at + 1:]}


def model_files(words):
    """Models by path: those named, and all below the folders named, sorted."""
    found = [path for path in words if path.endswith(".onnx")]
    for folder in words:
        found += sorted(os.path.join(root, name) for root, _, names in os.walk(folder) for name in names if name.endswith(".onnx"))
    return found


def name_of(path):
    """A model's name: its file's, without the ending."""
    return os.path.basename(path)[: -len(".onnx")]
