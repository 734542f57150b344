"""Models in the forms that callers have: paths, bytes, and protobuf messages of the package `onnx`."""

import os


def is_path(model):
    """Whether a model is a path."""
    return isinstance(model, (str, os.PathLike))


def contents(model):
    """Returns the bytes of a model that is no path. `onnx` is not imported: the message knows its own format."""
    if isinstance(model, bytes):
        return model
    if isinstance(model, (bytearray, memoryview)):
        return bytes(model)
    if hasattr(model, "SerializeToString"):
        return model.SerializeToString()
    raise TypeError(f"a model is a path, bytes or a ModelProto, not {type(model).__name__}")


def source(model):
    """Returns a path or the bytes of a model."""
    return os.fspath(model) if is_path(model) else contents(model)


def alike(model, planned):
    """Returns a planned model in the form of the given model."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return planned.model()
    message = type(model)()
    message.ParseFromString(planned.model())
    # A message writes its fields in an order of its own: the layout names the file that `onnx.save` makes.
    planned.encoded_as(message.SerializeToString())
    return message


class Files:
    """Paths of models for a command of its own process: bytes and messages go to files of a folder that is
    removed at the end."""

    def __init__(self):
        # Imported late: the command and plans need no folder, and start sooner.
        import tempfile

        self._folder = tempfile.TemporaryDirectory(prefix="memc-")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    def path(self, model, name):
        """Returns the path of a model, or writes the model into the folder under a name."""
        return os.fspath(model) if is_path(model) else self.written(contents(model), name)

    def written(self, data, name):
        """Writes bytes or text into the folder under a name; returns the path."""
        path = os.path.join(self._folder.name, name)
        with open(path, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
        return path
