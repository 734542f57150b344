"""Stands in for the packages of gigabytes that Olive imports, but does not call for ONNX models: PyTorch and
others. Python loads this file at its start if the folder is on its path."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types

NAMES = ["hf_xet", "huggingface_hub", "optuna", "pandas", "questionary", "torch", "torchmetrics", "transformers"]


class Kind(type):
    """A class that has every attribute: another class of this kind."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return kind(name)


def kind(name):
    call = {"__init__": lambda self, *_, **__: None, "__call__": lambda self, *given: given[0] if given else None}
    return Kind(name, (), call)


class Stub(types.ModuleType):
    """A module that has every attribute."""

    __version__ = "0.0.0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, kind(name))
        return self.__dict__[name]


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the packages that are not installed, and their modules."""

    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.names:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Stub(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.append(Stubs([name for name in NAMES if importlib.util.find_spec(name) is None]))
