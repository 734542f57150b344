"""Memory of a CUDA device, by the driver's runtime library."""

import ctypes
import sys

# Newest first. ONNX Runtime loads one of them, and a name that is loaded already is found again.
_LIBRARIES = {
    "linux": ("libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcudart.so"),
    "win32": ("cudart64_13.dll", "cudart64_12.dll", "cudart64_110.dll"),
}


class Device:
    """A CUDA device. `take(bytes)` returns the address of new memory, or None; `give_back(address)` frees it.

    `library` is the path of CUDA's runtime library; without it, those that the system finds are tried. Raises OSError
    if there is none, and RuntimeError if the device does not exist.
    """

    def __init__(self, number=0, library=None):
        self.number = number
        self._library = _loaded(library)
        self._library.cudaMalloc.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t]
        self._library.cudaFree.argtypes = [ctypes.c_void_p]
        self._enter()

    def take(self, bytes):
        self._enter()
        address = ctypes.c_void_p()
        failed = self._library.cudaMalloc(ctypes.byref(address), bytes)
        return None if failed else address.value

    def give_back(self, address):
        # At the end of a process the driver may be gone, and memory with it.
        self._library.cudaFree(address)

    def used(self):
        """Returns the bytes of the device that are in use, by all processes."""
        self._enter()
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        if self._library.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)):
            raise RuntimeError(f"CUDA device {self.number} does not tell its memory")
        return total.value - free.value

    def _enter(self):
        failed = self._library.cudaSetDevice(self.number)
        if failed:
            raise RuntimeError(f"there is no CUDA device {self.number} (error {failed} of cudaSetDevice)")


def _loaded(library):
    names = (library,) if library is not None else _LIBRARIES.get(sys.platform, ())
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            if library is not None:
                raise OSError(f"{library} is not CUDA's runtime library: {error}") from None
    raise OSError("CUDA's runtime library is not found: name it with `library=`, or call `onnxruntime.preload_dlls()` before")
