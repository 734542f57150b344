"""The example for embedded devices: both models, each command of its page."""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest

from models import ROOT
from test_emx import Emx

EXAMPLES = ROOT / "examples/embedded"


class Embedded(Emx):
    def test_the_commands_of_the_page(self):
        text = (EXAMPLES / "README.md").read_text()
        blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
        self.assertTrue(blocks)
        scripts = self.folder / "bin"
        scripts.mkdir()
        for name, module in [("python", ""), ("memc-emx", "-m memc.emx"), ("memc", "-m memc")]:
            (scripts / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
            (scripts / name).chmod(0o755)
        shutil.copytree(EXAMPLES, self.folder / "embedded")
        environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
        for block in blocks:
            done = subprocess.run(["sh", "-ec", block], cwd=self.folder / "embedded", env=environment, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, block + done.stdout + done.stderr)
        # The arenas of the page's table are those of the plans.
        for name, size in re.findall(r"^\| `(\w+)`.*\| ([\d,]+) B \|$", text, re.MULTILINE):
            layout = json.loads((self.folder / "embedded/out" / f"{name}.layout.json").read_text())
            self.assertEqual(layout["arenas"][0]["size"], int(size.replace(",", "")), name)


if __name__ == "__main__":
    unittest.main()
