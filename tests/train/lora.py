"""Trains adapters of low rank in a language model, and bakes them.

`lora.py MEMC FOLDER`: a step with adapters has the loss of the model before the first update and lowers it; only
adapters are state; the baked model, whose matrices contain the adapters, has the loss of the step.
"""
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx

import gpt
from learn import memc, session


def main():
    program, folder = sys.argv[1], Path(sys.argv[2])
    given, step, plain = folder / "gpt.onnx", folder / "step.onnx", folder / "eval.onnx"
    onnx.save(gpt.model(), given)
    loss = ["--loss", "cross-entropy", "--labels", "labels"]
    adapters = ["--lora", "r=4:h.*.attn.*weight", "--lora", "r=2:h.*.mlp.c_fc.weight"]
    said = memc(program, "train", given, "-o", step, "--eval", plain, *loss, *adapters, "--optimizer", "adamw", "--weight-decay", "0")
    assert "trainable: 12 tensors" in said, said
    # The embedding is also read by a Gather, so an adapter of its product alone would be another model.
    refused = subprocess.run([program, "train", given, "-o", folder / "no.onnx", *loss, "--lora", "r=2:wte.weight"], capture_output=True)
    assert refused.returncode == 2 and b"error[E0330]" in refused.stderr and not (folder / "no.onnx").exists(), refused
    onnx.checker.check_model(str(step))
    rng = np.random.default_rng(5)
    starts, strides = rng.integers(0, 40, (4, 1)), rng.integers(1, 3, (4, 1))
    tokens = (starts + strides * np.arange(17)) % 40
    batch = {"tokens": tokens[:, :-1], "labels": tokens[:, 1:]}
    trained = session(step)
    names = [output.name for output in trained.get_outputs()]
    assert all(name == "loss" or ".lora_" in name for name in names), names
    state, losses = {}, []
    for number in range(1, 61):
        numbers = {"lr": np.asarray(0.02, np.float32), "step": np.asarray(number, np.int64)}
        found = dict(zip(names, trained.run(None, {**batch, **numbers, **state})))
        state = {name[4:]: array for name, array in found.items() if name.startswith("new.")}
        losses.append(float(found["loss"]))
    before = session(plain).run(["loss"], batch)[0]
    assert abs(losses[0] - before) < 1e-6, (losses[0], before)
    assert losses[-1] < 0.6 * losses[0], losses
    # The baked model has the loss of the last state.
    last = trained.run(["loss"], {**batch, **numbers, **state})[0]
    np.savez(folder / "state.npz", **state)
    baked, after = folder / "baked.onnx", folder / "after.onnx"
    memc(program, "train", given, "--bake", folder / "state.npz", "-o", baked)
    memc(program, "train", baked, "--eval", after, *loss)
    found = session(after).run(["loss"], batch)[0]
    assert abs(found - last) < 1e-5, (found, last)
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(baked).graph.initializer}
    old = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(given).graph.initializer}
    for name, array in old.items():
        change = state.get(f"{name}.lora_a")
        wanted = array if change is None else array + change @ state[f"{name}.lora_b"]
        assert np.allclose(weights[name], wanted, atol=1e-6), name
    print(f"adapters: loss {losses[0]:.3f} -> {losses[-1]:.3f}; baked {found:.5f}, step {last:.5f}")


if __name__ == "__main__":
    main()
