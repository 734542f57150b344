"""Unpacks the C++ headers of ONNX Runtime from a package: PACKAGE SHA512 FOLDER."""

import base64
import hashlib
import pathlib
import sys
import tarfile

package, pinned, folder = sys.argv[1:]
content = pathlib.Path(package).read_bytes()
found = "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
if found != pinned:
    sys.exit(f"{package} has the hash {found}, not {pinned}")
target = pathlib.Path(folder)
target.mkdir(parents=True, exist_ok=True)
written = 0
with tarfile.open(package) as archive:
    for member in archive:
        if "/ios-arm64/onnxruntime.framework/Headers/" in member.name and member.isfile():
            (target / pathlib.PurePosixPath(member.name).name).write_bytes(archive.extractfile(member).read())
            written += 1
if not (target / "onnxruntime_cxx_api.h").exists():
    sys.exit(f"{package} holds no onnxruntime_cxx_api.h")
print(f"{written} headers in {target}")
