//! A training step built by hand: a chain of layers with dropout, its gradients, and a step of Adam.

use memc_onnx_proto::onnx::{AttributeProto, ModelProto};

use super::{fixed, float, int, node, raw, with};

pub const LAYERS: usize = 4;
const WIDTH: i64 = 64;
const BATCH: i64 = 128;

/// What a step returns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Returns {
    /// The gradients of the weights.
    Gradients,
    /// Weights and both moments after a step of Adam; the given ones are inputs with defaults.
    Adam,
}

/// A training step of a chain of layers with dropout.
pub fn step(seeded: bool, returns: Returns) -> ModelProto {
    let mut nodes = Vec::new();
    let mut push = |op: &str, inputs: &[&str], output: &str| {
        nodes.push(node(op, inputs, &[output]));
        nodes.len() - 1
    };
    let mut named: Vec<(usize, AttributeProto)> = Vec::new();
    for k in 0..LAYERS {
        let before = if k == 0 { "x".to_owned() } else { format!("a{}", k - 1) };
        push("MatMul", &[&before, &format!("w{k}")], &format!("h{k}"));
        let random = push("RandomUniformLike", &[&format!("h{k}")], &format!("r{k}"));
        named.extend(seeded.then(|| (random, float("seed", k as f32 + 1.0))));
        push("Greater", &[&format!("r{k}"), "rate"], &format!("m{k}"));
        let cast = push("Cast", &[&format!("m{k}")], &format!("f{k}"));
        named.push((cast, int("to", 1)));
        push("Mul", &[&format!("h{k}"), &format!("f{k}")], &format!("d{k}"));
        push("Tanh", &[&format!("d{k}")], &format!("a{k}"));
    }
    push("Neg", &[&format!("a{}", LAYERS - 1)], &format!("g{LAYERS}"));
    for k in (0..LAYERS).rev() {
        let before = if k == 0 { "x".to_owned() } else { format!("a{}", k - 1) };
        push("Mul", &[&format!("g{}", k + 1), &format!("a{k}")], &format!("s{k}"));
        push("Mul", &[&format!("s{k}"), &format!("f{k}")], &format!("b{k}"));
        push("Transpose", &[&before], &format!("t{k}"));
        push("MatMul", &[&format!("t{k}"), &format!("b{k}")], &format!("gw{k}"));
        push("Transpose", &[&format!("w{k}")], &format!("v{k}"));
        push("MatMul", &[&format!("b{k}"), &format!("v{k}")], &format!("g{k}"));
    }
    if returns == Returns::Adam {
        (0..LAYERS).for_each(|k| adam(k, &mut push));
    }
    for (index, value) in named {
        nodes[index].attribute.push(value);
    }
    with(nodes, |graph| {
        graph.input = vec![fixed("x", &[BATCH, WIDTH])];
        graph.output = match returns {
            Returns::Gradients => (0..LAYERS).map(|k| fixed(&format!("gw{k}"), &[WIDTH, WIDTH])).collect(),
            Returns::Adam => state().map(|name| fixed(&format!("new.{name}"), &[WIDTH, WIDTH])).collect(),
        };
        graph.initializer =
            vec![raw("rate", &[], &0.1_f32.to_le_bytes()), raw("half", &[], &0.5_f32.to_le_bytes())];
        for k in 0..LAYERS {
            let weights: Vec<u8> = (0..WIDTH * WIDTH)
                .flat_map(|i| (((i * 37 + k as i64 * 11) % 101) as f32 / 404.0 - 0.125).to_le_bytes())
                .collect();
            graph.initializer.push(raw(&format!("w{k}"), &[WIDTH, WIDTH], &weights));
            if returns == Returns::Adam {
                let moments: Vec<u8> =
                    (0..WIDTH * WIDTH).flat_map(|i| (1.0 + (i % 7) as f32).to_le_bytes()).collect();
                graph.initializer.extend(
                    ["mean", "var"].map(|moment| raw(&format!("{moment}{k}"), &[WIDTH, WIDTH], &moments)),
                );
            }
        }
        if returns == Returns::Adam {
            graph.input.extend(state().map(|name| fixed(&name, &[WIDTH, WIDTH])));
        }
    })
}

/// Names of weights and moments.
fn state() -> impl Iterator<Item = String> {
    (0..LAYERS).flat_map(|k| ["w", "mean", "var"].map(|kind| format!("{kind}{k}")))
}

/// The update of one layer's weights by its gradient, with both moments; all factors are one half.
fn adam(k: usize, push: &mut impl FnMut(&str, &[&str], &str) -> usize) {
    let name = |kind: &str| format!("{kind}{k}");
    let mut apply = |op: &str, inputs: [&str; 2], output: &str| {
        push(
            op,
            &inputs
                .map(|input| match input {
                    "half" => input.to_owned(),
                    other => name(other),
                })
                .each_ref()
                .map(String::as_str),
            output,
        )
    };
    apply("Mul", ["mean", "half"], &name("md"));
    apply("Mul", ["gw", "half"], &name("gh"));
    apply("Add", ["md", "gh"], &format!("new.mean{k}"));
    apply("Mul", ["var", "half"], &name("vd"));
    apply("Mul", ["gh", "gw"], &name("gs"));
    apply("Add", ["vd", "gs"], &format!("new.var{k}"));
    push("Sqrt", &[&format!("new.var{k}")], &name("root"));
    push("Div", &[&format!("new.mean{k}"), &name("root")], &name("step"));
    push("Mul", &[&name("step"), "rate"], &name("rated"));
    push("Sub", &[&name("w"), &name("rated")], &format!("new.w{k}"));
}
