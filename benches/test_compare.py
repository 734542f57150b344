"""Tests of compare.py: `python3 -m unittest discover -s benches`."""
import unittest

from compare import compare, kind


def row(options="default", arena="1000", time="0.00", budget="", refused="", smallest=""):
    return {"model": "m", "options": options, "arena": arena, "time_percent": time, "budget": budget, "refused": refused,
            "smallest": smallest, "cpu_seconds": "1.00"}


def kept(arena="900", time="1.00"):
    return row("--budget 50%", arena, time, "1000")


def refused(smallest):
    return row("--budget 50%", "", "", "1000", "E0301", smallest)


class Compare(unittest.TestCase):
    def test_rows_without_a_budget_weigh_bytes_and_time(self):
        self.assertEqual(kind(row(), row()), "equal")
        self.assertEqual(kind(row(), row(arena="1005")), "equal")
        self.assertEqual(kind(row(), row(arena="1006")), "worse")
        self.assertEqual(kind(row(), row(arena="990")), "improvement")
        self.assertEqual(kind(row(), row(time="0.60")), "worse")
        self.assertEqual(kind(row(), row(arena="990", time="0.60")), "traded")
        # A gain within the tolerance does not excuse a loss beyond it.
        self.assertEqual(kind(row(), row(arena="999", time="0.60")), "worse")

    def test_a_plan_beats_a_refusal(self):
        stopped = row(arena="", time="", refused="timeout")
        self.assertEqual(kind(stopped, row()), "improvement")
        self.assertEqual(kind(row(), stopped), "worse")
        self.assertEqual(kind(stopped, stopped), "equal")

    def test_rows_with_a_budget_rank_bytes_beyond_it_first(self):
        self.assertEqual(kind(refused("1001"), kept(time="50.00")), "improvement")
        self.assertEqual(kind(kept(), refused("1001")), "worse")
        self.assertEqual(kind(refused("1200"), refused("1100")), "improvement")
        self.assertEqual(kind(refused("1200"), refused("1300")), "worse")
        self.assertEqual(kind(refused("1200"), refused("1203")), "equal")
        self.assertEqual(kind(refused("1200"), refused("")), "worse")

    def test_rows_with_a_budget_rank_time_before_bytes(self):
        self.assertEqual(kind(kept(), kept(arena="990", time="0.00")), "improvement")
        self.assertEqual(kind(kept(), kept(arena="500", time="2.00")), "worse")
        self.assertEqual(kind(kept(), kept(arena="800")), "improvement")
        self.assertEqual(kind(kept(), kept(arena="950")), "worse")

    def test_rows_of_one_table_are_told_apart(self):
        said = []
        counts = compare({("a", "default"): row(), ("b", "default"): row()}, {("b", "default"): row(), ("c", "default"): row()}, said.append)
        self.assertEqual({name: count for name, count in counts.items() if count}, {"missing": 1, "equal": 1, "new": 1})
        self.assertEqual(len(said), 4)


if __name__ == "__main__":
    unittest.main()
