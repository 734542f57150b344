"""The Python programs of the pages work as written."""

import os
import pathlib
import tempfile
import unittest

from models import ROOT, wide


def programs(page):
    """Returns the blocks of Python of a page."""
    return [part.split("```")[0] for part in page.read_text().split("```python\n")[1:]]


class Pages(unittest.TestCase):
    def run_page(self, page):
        blocks = programs(ROOT / page)
        self.assertTrue(blocks, page)
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "model.onnx").write_bytes(wide().SerializeToString())
            os.symlink(ROOT / "tests", pathlib.Path(folder) / "tests")
            os.chdir(folder)
            try:
                names = {}
                for block in blocks:
                    exec(compile(block, page, "exec"), names)
            finally:
                os.chdir(before)

    def test_the_page_of_the_book(self):
        self.run_page("docs/src/python.md")

    def test_the_page_of_the_package(self):
        self.run_page("python/README.md")


if __name__ == "__main__":
    unittest.main()
