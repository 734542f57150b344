//! Plans that the tests of all reports share: a small hand-made plan, and large generated plans.
#![allow(dead_code, clippy::unwrap_used)]

use memc_layout::{
    Alias, AliasKind, Arena, Baseline, Busy, Class, EncodedWeight, Encoding, Layout, LiveCurve, LiveRange,
    LowerBound, ParetoPoint, Peak, ScheduledNode, Solver, Tensor, read,
};

/// Returns a plan of eighteen steps with in-place results, views, sub-views, a transfer, a recomputed
/// node and workspace.
pub fn block() -> Layout {
    read(include_str!("../../../../layout/tests/data/residual_block.layout.json")).unwrap()
}

/// Returns the block with a timeline, searches and other budgets.
pub fn timed() -> Layout {
    let mut layout = block();
    let takes =
        [500, 20, 150, 160, 30, 34, 210, 25, 190, 20, 34, 75, 60, 15, 8, 0, 6, 4].map(|us: u64| us * 1000);
    let mut now = 0;
    for (step, ns) in takes.into_iter().enumerate() {
        // The store runs in parallel to conv3. The next operator waits for the load.
        let waited = if step == 10 { ns } else { 0 };
        layout.timeline.push(Busy { start_ns: now, end_ns: now + ns });
        now += if step == 5 { 0 } else { ns.max(waited) };
    }
    layout.solvers = vec![
        solver("schedule", ("bytes", 557_056, 458_752), "node-limit", 20_000),
        solver("place", ("bytes", 589_824, 557_056), "node-limit", 20_000),
        solver("budget", ("ns", 1_858_220, 1_840_020), "exhausted", 1234),
    ];
    let point = |budget, arena, extra_ns, bound| ParetoPoint { budget, arena, extra_ns, bound };
    layout.pareto = vec![
        point(917_504, 905_216, 0, Some(0)),
        point(786_432, 786_432, 11_000, Some(10_500)),
        point(655_360, 589_824, 38_220, Some(20_020)),
        point(524_288, 524_288, 180_000, None),
    ];
    layout
}

fn solver(pass: &str, (unit, value, lower_bound): (&str, u64, u64), stop: &str, effort: u64) -> Solver {
    Solver { pass: pass.to_owned(), unit: unit.to_owned(), value, lower_bound, stop: stop.to_owned(), effort }
}

/// Returns the block with encoded values of two forms. One code is decoded twice.
pub fn encoded() -> Layout {
    let mut layout = timed();
    let names: Vec<String> = layout.tensors.iter().map(|tensor| tensor.name.clone()).collect();
    let row = |of: usize, code: &[usize], decoded: usize, form: &str, exact: bool| Encoding {
        error: None,
        of: names[of].clone(),
        code: code.iter().map(|index| names[*index].clone()).collect(),
        decoded: names[decoded].clone(),
        form: form.to_owned(),
        exact,
    };
    layout.encodings = vec![
        row(8, &[0, 1], 9, "int8", false),
        row(10, &[2], 11, "bits", true),
        row(10, &[2], 12, "bits", true),
        row(7, &[3], 13, "bits", true),
    ];
    // Two matrices in 8 bits, one of them in two parts.
    let weight = |of: &str, bits: u64, part: u64, relative_error: f64| EncodedWeight {
        of: of.to_owned(),
        codes: format!("{of}_{part}"),
        scales: format!("{of}_scales"),
        rows: [0, 64],
        columns: [16 * part, 16 * part + 16],
        bits,
        block: None,
        before: 4096,
        after: 1088,
        relative_error,
        largest_error: 0.5,
    };
    layout.encoded_weights =
        vec![weight("u", 8, 0, 0.004), weight("v", 8, 0, 0.0075), weight("v", 8, 1, 0.0075)];
    layout
}

/// Returns the block with names that a hostile model could give its tensors, nodes and spaces.
pub fn hostile() -> Layout {
    let names = [
        "</script><script>alert(1)</script>",
        "<!--",
        "\u{2028}\"'`${x}",
        "{{data}}",
        "a&amp;b",
        "<img src=x onerror=alert(1)>",
    ];
    let mut layout = timed();
    layout.solvers[0].pass = names[1].to_owned();
    layout.solvers[0].stop = names[0].to_owned();
    for busy in &mut layout.timeline {
        (busy.start_ns, busy.end_ns) = (u64::MAX - busy.start_ns, u64::MAX);
    }
    layout.pareto[0].extra_ns = u64::MAX;
    layout.encodings = encoded().encodings;
    layout.encodings[0].form = names[0].to_owned();
    layout.encoded_weights = encoded().encoded_weights;
    layout.encoded_weights[0].of = names[0].to_owned();
    for (index, tensor) in layout.tensors.iter_mut().filter(|tensor| tensor.space.is_some()).enumerate() {
        tensor.name = format!("{}{index}", names[index % names.len()]);
        tensor.alias = None;
    }
    for (index, node) in layout.schedule.iter_mut().enumerate() {
        node.node = format!("{}{index}", names[index % names.len()]);
        node.op = names[(index + 1) % names.len()].to_owned();
    }
    layout.target.name = names[0].to_owned();
    layout.memc_version = names[5].to_owned();
    layout.options.insert(names[0].to_owned(), names[3].to_owned());
    layout
}

/// Returns a plan without steps, tensors and spaces.
pub fn empty() -> Layout {
    let mut layout = block();
    layout.schedule.clear();
    layout.tensors.clear();
    layout.arenas.clear();
    layout.transfers.clear();
    layout.unplanned.clear();
    layout.budget.clear();
    layout.target.spaces.clear();
    (layout.peak, layout.lower_bound, layout.baseline) = Default::default();
    layout.cost = Default::default();
    layout
}

/// Returns a training step of `steps` nodes: the second half reads values of the first half, in
/// reverse. Placed by first fit in schedule order; about 1.6 tensors a step.
pub fn training(steps: u64) -> Layout {
    let mut layout = block();
    let half = steps / 2;
    layout.schedule = (0..steps)
        .map(|step| ScheduledNode {
            step,
            node: format!(
                "/layer{}/{}",
                step % half / 6,
                ["query", "key", "softmax", "value", "norm", "gelu"][step as usize % 6]
            ),
            op: ["MatMul", "MatMul", "Softmax", "MatMul", "LayerNormalization", "Gelu"][step as usize % 6]
                .to_owned(),
            domain: String::new(),
            engine: None,
            anchor: false,
            reads: Vec::new(),
            writes: Vec::new(),
        })
        .collect();
    // Tensors of each step: a result, and for some steps workspace, an in-place result or a recomputed
    // copy.
    layout.tensors.clear();
    let mut placed: Vec<(u64, u64, u64)> = Vec::new();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for step in 0..steps {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bytes = [1, 1, 6, 1, 2, 4][step as usize % 6] * ((random >> 60) + 8) * 16_384;
        let kept = step < half && !step.is_multiple_of(3);
        let end = if kept { steps - step } else { (step + 2 + (random >> 62)).min(steps) };
        placed.retain(|&(_, _, end)| end > step);
        let class = if step + 1 == steps { Class::Output } else { Class::Transient };
        push(&mut layout, &mut placed, (class, step), bytes, end);
        if step % 6 == 2 {
            push(&mut layout, &mut placed, (Class::Scratch, step), bytes / 2, step + 1);
        }
        if step % 6 == 5 && !kept {
            let owner = layout.tensors.last().unwrap().clone();
            layout.tensors.push(Tensor {
                name: format!("{}/over", owner.name),
                live: vec![LiveRange { start: (step + 1).min(end - 1), end }],
                alias: Some(Alias {
                    of: owner.name.clone(),
                    kind: AliasKind::InPlace,
                    alias_offset: 0,
                    alias_offset_expr: None,
                }),
                ..owner
            });
        }
        if step >= half && step % 9 == 0 {
            let again = layout.tensors.last_mut().unwrap();
            again.recompute_of = Some(format!("activation{}", steps - step));
        }
    }
    claim(layout)
}

/// Places a tensor at the lowest offset without live bytes.
fn push(
    layout: &mut Layout,
    placed: &mut Vec<(u64, u64, u64)>,
    (class, step): (Class, u64),
    bytes: u64,
    end: u64,
) {
    placed.sort_unstable();
    let mut offset = 0;
    for &(start, size, _) in placed.iter() {
        if start >= offset + bytes {
            break;
        }
        offset = offset.max(start + size);
    }
    placed.push((offset, bytes, end));
    let scratch = class == Class::Scratch;
    layout.tensors.push(Tensor {
        name: if scratch { format!("scratch:node{step}:0") } else { format!("activation{step}") },
        dtype: "float".to_owned(),
        shape: vec![bytes / 4],
        bytes,
        shape_expr: None,
        bytes_expr: None,
        class,
        space: Some("device".to_owned()),
        offset: Some(offset),
        live: vec![LiveRange { start: step, end }],
        alias: None,
        recompute_of: None,
        step: scratch.then_some(step),
    });
}

/// Fills in the claims of a layout.
fn claim(mut layout: Layout) -> Layout {
    let device = LiveCurve::of(&layout).spaces.remove(0);
    let size = device.owners.iter().map(|owner| owner.offset + owner.bytes).max().unwrap();
    layout.arenas = vec![Arena { space: "device".to_owned(), size, alignment: 64 }];
    layout.budget = [("device".to_owned(), size + size / 8)].into();
    layout.transfers.clear();
    layout.unplanned.clear();
    layout.target.spaces.truncate(1);
    layout.cost.transferred_bytes = 0;
    layout.peak =
        [("device".to_owned(), Peak { bytes: device.peak, step: device.peak_step, at_most: None })].into();
    let bound = LowerBound {
        placement: device.peak,
        order: None,
        order_proved: false,
        placement_proved: size == device.peak,
    };
    layout.lower_bound = [("device".to_owned(), bound)].into();
    layout.baseline = Baseline {
        file_order_peak: [("device".to_owned(), device.peak + device.peak / 3)].into(),
        ..Baseline::default()
    };
    layout
}
