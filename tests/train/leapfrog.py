"""Trains a leapfrog net, whose states their successors give back, within a small budget.

`leapfrog.py MEMC FOLDER [STEPS]`: the net moves a position and a momentum, `q' = q + p h` and `p' = p - f(q') h`, as
the leapfrog method for a differential equation does. Both sums can be undone, so a step needs no state of the way
there: it goes back from the last one. Prints the plans with and without `--lossy inverse`.
"""
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

from learn import train

ROWS, WIDTH = 256, 64


def net(steps):
    rng = np.random.default_rng(3)
    draw = lambda *shape: (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
    tensors = {"in.weight": draw(16, WIDTH), "push.weight": draw(16, WIDTH), "out.weight": draw(WIDTH, 4), "h": np.float32(0.2)}
    nodes = [h.make_node("MatMul", ["x", "in.weight"], ["q0"]), h.make_node("MatMul", ["x", "push.weight"], ["p0"])]
    for at in range(steps):
        tensors.update({f"a{at}.weight": draw(WIDTH, WIDTH), f"b{at}.weight": draw(WIDTH, WIDTH)})
        nodes += [
            h.make_node("Mul", [f"p{at}", "h"], [f"move{at}"]),
            h.make_node("Add", [f"q{at}", f"move{at}"], [f"q{at + 1}"]),
            h.make_node("MatMul", [f"q{at + 1}", f"a{at}.weight"], [f"inner{at}"]),
            h.make_node("Tanh", [f"inner{at}"], [f"bent{at}"]),
            h.make_node("MatMul", [f"bent{at}", f"b{at}.weight"], [f"force{at}"]),
            h.make_node("Mul", [f"force{at}", "h"], [f"push{at}"]),
            h.make_node("Sub", [f"p{at}", f"push{at}"], [f"p{at + 1}"]),
        ]
    nodes.append(h.make_node("MatMul", [f"q{steps}", "out.weight"], ["y"]))
    graph = h.make_graph(nodes, "leapfrog", [h.make_tensor_value_info("x", T.FLOAT, [ROWS, 16])],
                         [h.make_tensor_value_info("y", T.FLOAT, [ROWS, 4])], [nh.from_array(array, name) for name, array in tensors.items()])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)])
    model.ir_version = 8
    return model


def memc(*words, fails=False):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert fails or done.returncode == 0, done.stderr
    return done


def plan(program, folder, name, budget, options):
    """Layout of a plan of the step; None if no plan keeps the budget."""
    step, out, layout = folder / "step.onnx", folder / f"{name}.onnx", folder / f"{name}.layout.json"
    layout.unlink(missing_ok=True)
    words = ["--alias-state", "--effort", "fast", "--micro-batches", "1", "--no-rewrite", "--runtime", "ort", "--budget", budget, *options]
    if memc(program, "optimize", step, "-o", out, *words, fails=True).returncode != 0:
        return None
    # The check proves each row; outputs that are computed from rounded values need a comparison.
    assert memc(program, "check", step, out, layout, fails=True).returncode in (0, 4)
    return json.loads(layout.read_text())


def slower(layout):
    return layout["cost"]["modelled_ns_after"] / layout["cost"]["modelled_ns_before"]


def main():
    program, folder = sys.argv[1], Path(sys.argv[2])
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 12
    onnx.save(net(steps), folder / "net.onnx")
    memc(program, "train", folder / "net.onnx", "-o", folder / "step.onnx", "--loss", "mse", "--labels", "t")
    plans = {}
    for budget in sys.argv[4:] or ["50%", "30%"]:
        for name, options in [("plain", []), ("back", ["--lossy", "inverse"])]:
            layout = plans[budget, name] = plan(program, folder, name, budget, options)
            if layout is None:
                print(f"{budget} {name}: refused")
                continue
            rows = [row for row in layout.get("encodings", []) if row["form"] == "inverse"]
            assert all(row["exact"] == ("error" not in row) and row["code"] == [] for row in rows)
            print(f"{budget} {name}: arena {layout['arenas'][0]['size']}, time {slower(layout):.3f}, {len(rows)} values given back")
    if len(sys.argv) > 4:
        return
    for budget in ["50%", "30%"]:
        plain, back = plans[budget, "plain"], plans[budget, "back"]
        assert back is not None and (plain is None or slower(back) <= slower(plain)), budget
    assert len([row for row in plans["30%", "back"]["encodings"] if row["form"] == "inverse"]) >= steps // 2
    # The last plan learns as the step does.
    memc(program, "verify", folder / "step.onnx", folder / "back.onnx", "--lossy-bound", "1e-4")
    rng = np.random.default_rng(7)
    x = rng.standard_normal((ROWS, 16)).astype(np.float32)
    batches = [{"x": x, "t": np.tanh(x[:, :4])}] * 20
    losses, again = (train(folder / name, batches, 0.05) for name in ("step.onnx", "back.onnx"))
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}; planned {again[-1]:.4f}")
    assert losses[-1] < 0.7 * losses[0] and np.allclose(losses, again, rtol=1e-3), (losses, again)


if __name__ == "__main__":
    main()
