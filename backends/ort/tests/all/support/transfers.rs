//! Plans with transfers, made by hand: long-lived values of a planned model move to another space while
//! no node reads them.

use std::collections::BTreeMap;
use std::fs;

use memc::Request;
use memc_layout::{Arena, Class, Layout, Link, LiveCurve, LowerBound, Peak, Space, Transfer};
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::{ModelProto, NodeProto, OperatorSetIdProto};

/// A value that moves away for some steps.
struct Trip {
    name: String,
    /// Positions of the last node before the value leaves and of the first node that needs it again.
    leaves: usize,
    returns: usize,
}

fn transfer(op: &str, from: &str, to: &str) -> NodeProto {
    NodeProto {
        op_type: Some(op.to_owned()),
        domain: Some("ai.memc".to_owned()),
        name: Some(format!("{op}:{from}")),
        input: vec![from.to_owned()],
        output: vec![to.to_owned()],
        ..NodeProto::default()
    }
}

fn far(name: &str) -> String {
    format!("{name}.far")
}

fn back(name: &str) -> String {
    format!("{name}.back")
}

/// Returns values that own their bytes alone and that no node reads for at least `pause` steps, the
/// largest first.
fn trips(model: &ModelProto, layout: &Layout, pause: usize, most: usize) -> Vec<Trip> {
    let nodes = &model.graph.as_ref().unwrap().node;
    let mut found: Vec<(u64, Trip)> = Vec::new();
    for tensor in &layout.tensors {
        let is_shared = layout
            .tensors
            .iter()
            .any(|other| other.alias.as_ref().is_some_and(|alias| alias.of == tensor.name));
        if tensor.class != Class::Transient || tensor.alias.is_some() || is_shared || tensor.bytes < 256 {
            continue;
        }
        let touches =
            |node: &NodeProto| node.input.contains(&tensor.name) || node.output.contains(&tensor.name);
        let uses: Vec<usize> = (0..nodes.len()).filter(|position| touches(&nodes[*position])).collect();
        let gap =
            uses.windows(2).max_by_key(|pair| pair[1] - pair[0]).filter(|pair| pair[1] - pair[0] > pause);
        if let Some(pair) = gap {
            found.push((tensor.bytes, Trip { name: tensor.name.clone(), leaves: pair[0], returns: pair[1] }));
        }
    }
    found.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.name.cmp(&b.1.name)));
    found.into_iter().take(most).map(|(_, trip)| trip).collect()
}

fn with_nodes(model: &ModelProto, trips: &[Trip], pause: usize) -> ModelProto {
    let mut model = model.clone();
    model.opset_import.push(OperatorSetIdProto { domain: Some("ai.memc".to_owned()), version: Some(1) });
    let graph = model.graph.as_mut().unwrap();
    let mut nodes = Vec::new();
    for (position, mut node) in std::mem::take(&mut graph.node).into_iter().enumerate() {
        for trip in trips.iter().filter(|trip| trip.returns == position) {
            nodes.push(transfer("SwapIn", &far(&trip.name), &back(&trip.name)));
        }
        for trip in trips.iter().filter(|trip| trip.returns <= position) {
            node.input
                .iter_mut()
                .filter(|input| **input == trip.name)
                .for_each(|input| *input = back(&trip.name));
        }
        nodes.push(node);
        // Insert stores a third of the pause later, so that a player has something to do in between.
        for trip in trips.iter().filter(|trip| trip.leaves + pause / 3 == position) {
            nodes.push(transfer("SwapOut", &trip.name, &far(&trip.name)));
        }
    }
    graph.node = nodes;
    model
}

/// Places every owner of a space at the lowest free offset, the largest first.
fn place(layout: &mut Layout, space: &str, alignment: u64) {
    let profile = LiveCurve::of(layout);
    let mut owners = profile.spaces.iter().find(|row| row.space == space).unwrap().owners.clone();
    owners.sort_by_key(|owner| (std::cmp::Reverse(owner.bytes), owner.tensor));
    let mut placed: Vec<(u64, u64, u64, u64)> = Vec::new();
    for owner in owners {
        let mut rivals: Vec<_> =
            placed.iter().filter(|row| row.2 < owner.end() && owner.start() < row.3).collect();
        rivals.sort();
        let mut offset = 0u64;
        for (start, end, ..) in rivals {
            if offset + owner.bytes <= *start {
                break;
            }
            offset = offset.max(end.next_multiple_of(alignment));
        }
        placed.push((offset, offset + owner.bytes, owner.start(), owner.end()));
        layout.tensors[owner.tensor].offset = Some(offset);
    }
    let places: BTreeMap<String, Option<u64>> =
        layout.tensors.iter().map(|tensor| (tensor.name.clone(), tensor.offset)).collect();
    // Each round settles one more link of a chain of aliases.
    let mut known = places;
    for _ in 0..layout.tensors.len() {
        let mut changed = false;
        for tensor in layout.tensors.iter_mut().filter(|tensor| tensor.space.as_deref() == Some(space)) {
            if let Some(alias) = &tensor.alias {
                let offset = known[&alias.of].map(|offset| offset + alias.alias_offset);
                changed |= offset != tensor.offset;
                tensor.offset = offset;
                known.insert(tensor.name.clone(), offset);
            }
        }
        if !changed {
            break;
        }
    }
    let size = placed.iter().map(|row| row.1).max().unwrap_or(0);
    layout.arenas.retain(|arena| arena.space != space);
    layout.arenas.push(Arena { space: space.to_owned(), size, alignment });
}

/// Plans a model so that at most `most` values spend their pauses in a space; a far space has its own
/// alignment.
pub fn plan_with_transfers(
    given: &ModelFile,
    space: &str,
    alignment: u64,
    pause: usize,
    most: usize,
) -> (ModelFile, Layout) {
    let request = Request::new().effort(2_000).exact(true);
    let first = memc::plan(given, &request).unwrap();
    let mut bytes = Vec::new();
    first.model.write_to(&mut bytes).unwrap();
    let ordered = ModelFile::from_bytes(bytes).unwrap();
    let trips = trips(ordered.model(), &first.layout, pause, most);
    assert!(!trips.is_empty(), "some value has a pause");
    let moved = with_nodes(ordered.model(), &trips, pause);
    let path = given.path().unwrap().with_extension("moved.onnx");
    fs::write(&path, prost::Message::encode_to_vec(&moved)).unwrap();
    let moved = ModelFile::open(&path).unwrap();
    // The far places come below, so this plan alone is none: it fails its check.
    let request = request.passes(memc_plan::FILE_ORDER);
    assert!(matches!(memc::plan(&moved, &request), Err(memc::Error::Refuted { .. })));
    let request = Request { check: false, ..request };
    let second = memc::plan(&moved, &request).unwrap();
    let path = given.path().unwrap().with_extension(format!("{space}.onnx"));
    second.model.write_to(&mut fs::File::create(&path).unwrap()).unwrap();

    let mut layout = second.layout;
    let near = layout.arenas[0].space.clone();
    for trip in &trips {
        let tensor = layout.tensors.iter_mut().find(|tensor| tensor.name == far(&trip.name)).unwrap();
        assert!(tensor.alias.is_none());
        tensor.space = Some(space.to_owned());
    }
    let near_alignment = layout.arenas[0].alignment;
    place(&mut layout, &near, near_alignment);
    place(&mut layout, space, alignment);
    layout.target.spaces.push(Space { name: space.to_owned(), capacity: None, alignment, access: None });
    for (from, to) in [(&near, space), (&space.to_owned(), near.as_str())] {
        layout.target.links.push(Link {
            from: from.clone(),
            to: to.to_owned(),
            bytes_per_second: 1e9,
            latency_ns: 0.0,
        });
    }
    let step = |name: String| layout.schedule.iter().find(|row| row.node == name).unwrap().step;
    let rows: Vec<Transfer> = trips
        .iter()
        .map(|trip| Transfer {
            tensor: trip.name.clone(),
            result: back(&trip.name),
            from: near.clone(),
            to: space.to_owned(),
            store_step: step(format!("SwapOut:{}", trip.name)),
            load_step: step(format!("SwapIn:{}", far(&trip.name))),
            bytes: layout.tensors.iter().find(|tensor| tensor.name == trip.name).unwrap().bytes,
        })
        .collect();
    layout.cost.transferred_bytes = rows.iter().map(|row| row.bytes).sum();
    layout.transfers = rows;
    layout.transfers.sort_by_key(|row| row.store_step);
    layout.lower_bound.clear();
    layout.peak.clear();
    for row in LiveCurve::of(&layout).spaces {
        let bound =
            LowerBound { placement: row.peak, order: None, order_proved: false, placement_proved: false };
        layout.lower_bound.insert(row.space.clone(), bound);
        layout.peak.insert(row.space, Peak { bytes: row.peak, step: row.peak_step, at_most: None });
    }
    layout.model.input_sha256 = first.layout.model.input_sha256;
    layout.baseline = first.layout.baseline;
    layout.cost.nodes_before = first.layout.cost.nodes_before;
    (ModelFile::open(&path).unwrap(), layout)
}
