"""Ask a constraint solver for the least cost of recompute problems, in the order of memc's own answers: how far from an optimum are they?

    pip install ortools==9.15.6755
    python3 benches/recompute_optimum.py [--memc target/release/memc] [--budget 70%] [--runs 3] [--seconds 600] PROBLEM.dag.json...

The model is that of Bartan et al., *Moccasin: efficient tensor rematerialization for neural networks*, ICML 2023, section 3: operations run for the
first time in the order in which they do in the answer, each runs so many times at most, a later run stands somewhere before the first run of another
operation, and what is held is an interval for each run. "optimal" is the solver's proof that no such plan costs less.
"""
import argparse
import json
import os
import subprocess
import tempfile

from ortools.sat.python import cp_model


def answer(memc, path, budget):
    """memc's answer to a problem, and the capacity in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "answer.json")
        subprocess.run([memc, "solve", "recompute", path, "--budget", budget, "-o", out, "--quiet"], check=True)
        with open(out, encoding="utf-8") as file:
            return json.load(file)


class Model:
    """The problem as intervals: an operation that runs again in stage j, before the one that is first then, does so at a place that its own first run fixes."""

    def __init__(self, problem, order, capacity, runs):
        self.nodes = {node["id"]: node for node in problem["nodes"]}
        self.model, self.first = cp_model.CpModel(), {op: stage for stage, op in enumerate(order)}
        self.end_of_time = self.place(len(order), 0)
        self.copies = {op: [self.copy(op, index) for index in range(runs)] for op in order}
        for op in order:
            self.follow_each_other(self.copies[op])
        for maker, reader in problem["edges"]:
            for read in self.copies[reader]:
                self.is_there(self.copies[maker], read)
        held = [(copy["interval"], self.nodes[op]["size"]) for op in order for copy in self.copies[op]]
        self.model.add_cumulative([interval for interval, _ in held], [size for _, size in held], capacity)
        again = [(self.nodes[op]["cost"], copy["runs"]) for op in order for copy in self.copies[op][1:]]
        self.model.minimize(sum(cost * runs for cost, runs in again))

    @staticmethod
    def place(stage, within):
        return stage * (stage + 1) // 2 + within

    def copy(self, op, index):
        """Run number `index` of an operation; the first one always is."""
        model, own, last = self.model, self.first[op], len(self.first)
        places = [self.place(stage, own) for stage in range(own if index == 0 else own + 1, own + 1 if index == 0 else last)]
        if not places:
            return {"start": None, "runs": model.new_constant(0), "end": None, "interval": self.nothing()}
        start = model.new_int_var_from_domain(cp_model.Domain.from_values(places), f"start {op} {index}")
        end = model.new_int_var(places[0], self.end_of_time, f"end {op} {index}")
        runs = model.new_constant(1) if index == 0 else model.new_bool_var(f"runs {op} {index}")
        size = model.new_int_var(1, self.end_of_time, f"length {op} {index}")
        interval = model.new_optional_interval_var(start, size, end + 1, runs, f"held {op} {index}")
        return {"start": start, "end": end, "runs": runs, "interval": interval}

    def nothing(self):
        return self.model.new_optional_fixed_size_interval_var(0, 1, self.model.new_constant(0), "nothing")

    def follow_each_other(self, copies):
        """What is held of a run ends before the next one."""
        for before, after in zip(copies, copies[1:]):
            if after["start"] is not None:
                self.model.add_implication(after["runs"], before["runs"])
                self.model.add(after["start"] > before["end"]).only_enforce_if(after["runs"])

    def is_there(self, makers, read):
        """A run finds its operand held."""
        if read["start"] is None:
            return
        found = []
        for copy in makers:
            if copy["start"] is None:
                continue
            chosen = self.model.new_bool_var("")
            self.model.add_implication(chosen, copy["runs"])
            self.model.add(copy["start"] < read["start"]).only_enforce_if(chosen)
            self.model.add(copy["end"] >= read["start"]).only_enforce_if(chosen)
            found.append(chosen)
        self.model.add_bool_or([*found, read["runs"].negated()] if not isinstance(read["runs"], int) else found)

    def start_from(self, sequence):
        """Hints a plan."""
        stage, seen = 0, {op: 0 for op in self.first}
        for op in sequence:
            copies, index = self.copies[op], seen[op]
            seen[op] += 1
            if index == 0:
                stage = self.first[op] + 1
            elif index < len(copies) and copies[index]["start"] is not None:
                self.model.add_hint(copies[index]["start"], self.place(stage, self.first[op]))
        for op, copies in self.copies.items():
            for index, copy in enumerate(copies[1:], 1):
                if copy["start"] is not None:
                    self.model.add_hint(copy["runs"], seen[op] > index)


def solved(problem, found, capacity, options):
    """Extra cost of the best plan that the solver finds, its bound, and whether it is proven."""
    order = list(dict.fromkeys(found["sequence"]))
    made = Model(problem, order, capacity, options.runs)
    made.start_from(found["sequence"])
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = options.seconds
    status = solver.solve(made.model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, solver.best_objective_bound, solver.status_name(status).lower()
    return solver.objective_value, solver.best_objective_bound, solver.status_name(status).lower()


def main():
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("problems", nargs="+", metavar="PROBLEM.dag.json")
    made.add_argument("--memc", default="target/release/memc")
    made.add_argument("--budget", default="70%")
    made.add_argument("--runs", default=3, type=int)
    made.add_argument("--seconds", default=600, type=float)
    options = made.parse_args()
    print("| problem | budget | memc | solver | its bound | |")
    print("|---|--:|--:|--:|--:|---|")
    for path in options.problems:
        with open(path, encoding="utf-8") as file:
            problem = json.load(file)
        found = answer(options.memc, path, options.budget)
        capacity = int(options.budget.rstrip("%"))
        capacity = found["base_peak"] * capacity // 100 if options.budget.endswith("%") else capacity
        best, bound, status = solved(problem, found, capacity, options)
        percent = lambda extra: "-" if extra is None else f"{extra * 100 / found['base_cost']:.4f} %"
        ours = found["cost"] - found["base_cost"]
        print(f"| {problem['name']} | {options.budget} | {percent(ours)} | {percent(best)} | {percent(bound)} | {status} |", flush=True)


if __name__ == "__main__":
    main()
