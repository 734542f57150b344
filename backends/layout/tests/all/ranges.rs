//! Tests plans for ranges of dimensions: the formula, buckets, and the functions in C and Rust.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use memc_layout::{
    Alias, AliasKind, Arena, Bucket, Class, Expr, Extents, Layout, Limit, LiveRange, Placement,
    PlacementError, Rule, Tensor, formula, read, to_c_header, to_rust,
};

/// Deterministic pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

type Point = BTreeMap<String, u64>;

/// Names of dimensions: a word, one with marks, one that needs quotes, and a keyword.
const NAMES: [&str; 4] = ["seq", "x.2", "two words", "for"];
/// Sizes: growing, falling, rounded, with minima and maxima, with a divisor that can be 0.
const SIZES: [&str; 9] = [
    "4*seq",
    "12*seq*x.2",
    "64*\"two words\"",
    "4*floor((seq+1)/2)*floor(x.2/3)",
    "40-4*seq",
    "8*min(5,seq)+4*max(x.2,\"two words\")",
    "floor((1-seq)/2)+100",
    "4*floor(24/for)*seq",
    "4*for*floor((3-2*x.2)/5)+80",
];

fn expr_value(text: &str, point: &Point) -> u64 {
    u64::try_from(Expr::parse(text).unwrap().value(point).unwrap().max(0)).unwrap()
}

/// All points of the ranges that keep the limits.
fn points(layout: &Layout) -> Vec<Point> {
    let mut all = vec![Point::new()];
    for (name, range) in &layout.model.ranges {
        let extents = (range.min..=range.max).step_by(usize::try_from(range.step).unwrap());
        let with =
            |point: &Point, extent| point.clone().into_iter().chain([(name.clone(), extent)]).collect();
        all = extents.flat_map(|extent| all.iter().map(move |point| with(point, extent))).collect();
    }
    let keeps = |point: &Point| {
        let value = |limit: &Limit| Expr::parse(&limit.of).unwrap().value(point).unwrap();
        layout.model.limits.iter().all(|limit| value(limit) <= i128::from(limit.most))
    };
    all.retain(keeps);
    all
}

/// Lowest free offsets in the order of the tensors, for sizes by tensor.
fn first_fit(tensors: &[Tensor], sizes: &[u64], alignment: u64) -> Vec<u64> {
    let mut offsets: Vec<u64> = Vec::new();
    for (at, tensor) in tensors.iter().enumerate() {
        let meets = |other: &usize| {
            tensors[*other].live[0].start < tensor.live[0].end
                && tensor.live[0].start < tensors[*other].live[0].end
        };
        let mut taken: Vec<(u64, u64)> =
            (0..at).filter(meets).map(|other| (offsets[other], offsets[other] + sizes[other])).collect();
        taken.sort_unstable();
        let fit = taken.iter().fold(0u64, |start, (low, high)| {
            if start + sizes[at] <= *low { start } else { start.max(high.next_multiple_of(alignment)) }
        });
        offsets.push(fit);
    }
    offsets
}

fn tensor(name: String, live: LiveRange) -> Tensor {
    Tensor {
        name,
        dtype: "uint8".to_owned(),
        shape: vec![1],
        bytes: 1,
        shape_expr: None,
        bytes_expr: None,
        class: Class::Transient,
        space: Some("device".to_owned()),
        offset: Some(0),
        live: vec![live],
        alias: None,
        recompute_of: None,
        step: None,
    }
}

/// Makes a plan with random live ranges, sizes and aliases, and two buckets.
fn plan(seed: u64) -> Layout {
    let mut random = Random(seed);
    let mut layout = read(include_str!("../data/residual_block.layout.json")).unwrap();
    let range = |min, max, step| Extents { min, max, step };
    let ranges = [range(0, 12, 3), range(1, 4, 1), range(2, 6, 2), range(0, 2, 1)];
    layout.model.ranges = NAMES.iter().zip(ranges).map(|(name, range)| ((*name).to_owned(), range)).collect();
    layout.model.limits = vec![Limit { of: "seq*x.2".to_owned(), most: 40 }];
    let steps = layout.schedule.len() as u64;
    let all = points(&layout);
    let most = |text: &str| all.iter().map(|point| expr_value(text, point)).max().unwrap();
    let mut tensors: Vec<Tensor> = (0..30)
        .map(|at| {
            let start = random.below(steps);
            let mut tensor =
                tensor(format!("t{at}"), LiveRange { start, end: (start + 1 + random.below(5)).min(steps) });
            if let Some(text) = SIZES.get(random.below(12) as usize) {
                (tensor.bytes, tensor.bytes_expr) = (most(text), Some((*text).to_owned()));
                (tensor.shape, tensor.shape_expr) = (vec![most(text)], Some(vec![(*text).to_owned()]));
            } else {
                tensor.bytes = random.below(3) * 36;
            }
            tensor
        })
        .collect();
    let sizes: Vec<u64> = tensors.iter().map(|tensor| tensor.bytes).collect();
    let offsets = first_fit(&tensors, &sizes, 16);
    let arena = |sizes: &[u64], offsets: &[u64]| Arena {
        space: "device".to_owned(),
        size: sizes
            .iter()
            .zip(offsets)
            .filter(|(size, _)| **size > 0)
            .map(|(size, offset)| size + offset)
            .max()
            .unwrap(),
        alignment: 16,
    };
    layout.arenas = vec![arena(&sizes, &offsets)];
    for (tensor, offset) in tensors.iter_mut().zip(&offsets) {
        tensor.offset = Some(*offset);
    }
    layout.layouts = [3, 9]
        .map(|largest| {
            let held: Vec<&Point> = all.iter().filter(|point| point["seq"] <= largest).collect();
            let size = |tensor: &Tensor| {
                tensor.bytes_expr.as_ref().map_or(tensor.bytes, |text| {
                    held.iter().map(|point| expr_value(text, point)).max().unwrap()
                })
            };
            let sizes: Vec<u64> = tensors.iter().map(size).collect();
            let offsets = first_fit(&tensors, &sizes, 16);
            let arenas = vec![arena(&sizes, &offsets)];
            let dims = BTreeMap::from([("seq".to_owned(), largest)]);
            Bucket {
                dims,
                arenas,
                offsets: tensors.iter().map(|tensor| tensor.name.clone()).zip(offsets).collect(),
            }
        })
        .into();
    // A chain of aliases that begins after its owner: order and offsets must follow it.
    let of = |of: &str, text: Option<&str>, at: u64| {
        Some(Alias {
            of: of.to_owned(),
            kind: AliasKind::View,
            alias_offset: at,
            alias_offset_expr: text.map(str::to_owned),
        })
    };
    for (name, alias) in [("v1", of("v2", None, 0)), ("v2", of("t0", Some("floor(seq/3)"), 4))] {
        let mut view = tensor(name.to_owned(), tensors[0].live[0]);
        (view.alias, view.bytes) = (alias, 0);
        view.offset = Some(offsets[0] + 4);
        tensors.push(view);
    }
    let mut input = tensor("an input".to_owned(), LiveRange { start: 0, end: 1 });
    (input.class, input.space, input.offset) = (Class::Input, None, None);
    (input.bytes, input.bytes_expr) = (most("12*seq*x.2"), Some("12*seq*x.2".to_owned()));
    tensors.push(input);
    layout.tensors = tensors;
    layout.formula = formula(&layout);
    layout
}

/// Refuses a placement in which two owners share a byte, or one lies outside its arena.
fn assert_disjoint(layout: &Layout, placement: &Placement, point: &Point) {
    let owners: Vec<usize> = (0..layout.tensors.len())
        .filter(|at| {
            layout.tensors[*at].alias.is_none()
                && placement.offsets[*at].is_some()
                && placement.bytes[*at] > 0
        })
        .collect();
    for (at, left) in owners.iter().enumerate() {
        let place =
            |at: usize| placement.offsets[at].unwrap()..placement.offsets[at].unwrap() + placement.bytes[at];
        assert!(place(*left).end <= placement.arenas[0] && place(*left).start % 16 == 0, "{point:?}: {left}");
        for right in &owners[at + 1..] {
            let live = |at: usize| layout.tensors[at].live[0];
            let meet = live(*left).start < live(*right).end && live(*right).start < live(*left).end;
            let share = place(*left).start < place(*right).end && place(*right).start < place(*left).end;
            assert!(!(meet && share), "{point:?}: {left} and {right}");
        }
    }
}

#[test]
fn no_bytes_are_shared_at_any_extents() {
    let mut smaller = 0;
    for seed in 0..20 {
        let layout = plan(seed);
        for point in points(&layout) {
            let formula = Placement::at(&layout, &point, Rule::Formula).unwrap();
            let fixed = Placement::at(&layout, &point, Rule::Fixed).unwrap();
            assert_disjoint(&layout, &formula, &point);
            assert_disjoint(&layout, &fixed, &point);
            assert!(formula.arenas[0] <= layout.arenas[0].size, "{seed} {point:?}");
            for (tensor, offset) in layout
                .tensors
                .iter()
                .zip(&formula.offsets)
                .filter(|(tensor, _)| tensor.alias.is_none() && tensor.bytes > 0)
            {
                assert!(*offset <= tensor.offset, "{seed} {point:?}: {}", tensor.name);
            }
            smaller += usize::from(formula.arenas[0] < fixed.arenas[0]);
            let (view, owner) = (formula.offsets[31].unwrap(), formula.offsets[0].unwrap());
            assert_eq!((view, formula.offsets[30]), (owner + point["seq"] / 3, Some(view)));
            assert_eq!(formula.offsets[32], None);
        }
    }
    assert!(smaller > 1000, "{smaller}");
}

#[test]
fn rows_are_few_and_in_order() {
    for seed in 0..20 {
        let layout = plan(seed);
        let rows = &layout.formula["device"];
        assert_eq!(rows.len(), 30);
        let place = |name: &String| rows.iter().position(|row| row.tensor == *name).unwrap();
        let mut reached: Vec<Vec<bool>> = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            let mut all = vec![false; rows.len()];
            for below in row.above.iter().map(place) {
                assert!(below < at);
                // A row that follows from another one is left out.
                let others = row.above.iter().map(place).filter(|other| *other != below);
                assert!(others.clone().all(|other| !reached[other][below]), "{seed}: {}", row.tensor);
                all[below] = true;
                (0..at).for_each(|lower| all[lower] |= reached[below][lower]);
            }
            reached.push(all);
        }
        let edges: usize = rows.iter().map(|row| row.above.len()).sum();
        assert!(edges < 60, "{edges}");
    }
}

#[test]
fn extents_outside_the_plan_are_refused() {
    let layout = plan(1);
    let point: Point = points(&layout).pop().unwrap();
    let with = |name: &str, extent: u64| -> Result<Placement, PlacementError> {
        let mut point = point.clone();
        point.insert(name.to_owned(), extent);
        Placement::at(&layout, &point, Rule::Formula)
    };
    assert!(matches!(with("seq", 15), Err(PlacementError::Extent { max: 12, .. })));
    assert!(matches!(with("seq", 4), Err(PlacementError::Extent { step: 3, .. })));
    assert!(matches!(with("x.2", 0), Err(PlacementError::Extent { min: 1, .. })));
    let mut broken = point.clone();
    broken.extend([("seq".to_owned(), 12), ("x.2".to_owned(), 4)]);
    assert!(matches!(
        Placement::at(&layout, &broken, Rule::Fixed),
        Err(PlacementError::Limit { most: 40, .. })
    ));
    assert!(matches!(
        Placement::at(&layout, &Point::new(), Rule::Fixed),
        Err(PlacementError::Missing { .. })
    ));
    let mut wrong = layout.clone();
    wrong.formula.get_mut("device").unwrap().reverse();
    assert!(matches!(Placement::at(&wrong, &point, Rule::Formula), Err(PlacementError::Tensor { .. })));
}

/// Text of both placements at a point, as the programs print it; values of tensors of the caller are 0.
fn expected(layout: &Layout, point: &Point) -> String {
    let mut text = String::new();
    for rule in [Rule::Formula, Rule::Fixed] {
        let found = Placement::at(layout, point, rule).unwrap();
        for (bytes, offset) in found.bytes.iter().zip(&found.offsets) {
            write!(text, "{bytes} {} ", offset.unwrap_or(0)).unwrap();
        }
        writeln!(text, "{}", found.arenas[0]).unwrap();
    }
    writeln!(text, "{}", expr_value("12*seq*x.2", point)).unwrap();
    text
}

/// Extents in the order of the names.
fn sample(layout: &Layout) -> Vec<Point> {
    points(layout).into_iter().step_by(7).collect()
}

fn run(program: &str, arguments: &[&str]) -> String {
    let ran = Command::new(program).args(arguments).output().unwrap();
    assert!(ran.status.success(), "{program}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

fn is_here(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|ran| ran.status.success())
}

#[test]
fn the_c_functions_compute_the_placement() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let compilers = [("cc", "c", "-std=c99"), ("c++", "cpp", "-std=c++11")];
    for (compiler, extension, standard) in compilers.into_iter().filter(|(compiler, ..)| is_here(compiler)) {
        for seed in [3, 4] {
            let layout = plan(seed);
            let (header, source) =
                (format!("ranges{seed}.h"), folder.join(format!("ranges{seed}.{extension}")));
            std::fs::write(folder.join(&header), to_c_header(&layout)).unwrap();
            let rows: Vec<String> = sample(&layout)
                .iter()
                .map(|point| {
                    format!("{{ {} }}", point.values().map(u64::to_string).collect::<Vec<_>>().join(", "))
                })
                .collect();
            let text = format!(
                "#include <stdio.h>\n#include \"{header}\"\nstatic const memc_extents all[] = {{ {} }};\n\
                 int main(void) {{\n  unsigned long long sizes[MEMC_TENSOR_COUNT], offsets[MEMC_TENSOR_COUNT], arenas[1];\n  \
                 unsigned i, k, way;\n  for (i = 0; i < sizeof all / sizeof *all; i++) {{\n    \
                 for (way = 0; way < 2; way++) {{\n      \
                 if (!(way ? memc_fixed_offsets_at : memc_offsets_at)(&all[i], sizes, offsets, arenas)) return 1;\n      \
                 for (k = 0; k < MEMC_TENSOR_COUNT; k++) printf(\"%llu %llu \", sizes[k], offsets[k]);\n      \
                 printf(\"%llu\\n\", arenas[0]);\n    }}\n    printf(\"%llu\\n\", memc_bytes_an_input(&all[i]));\n  }}\n  \
                 memc_extents other = all[0];\n  other.dim_seq = 13;\n  return memc_offsets_at(&other, sizes, offsets, arenas);\n}}\n",
                rows.join(", ")
            );
            std::fs::write(&source, text).unwrap();
            let program = folder.join(format!("ranges_{extension}{seed}"));
            let (source, output) = (source.to_str().unwrap(), program.to_str().unwrap());
            run(compiler, &[standard, "-Wall", "-Wextra", "-Werror", "-Wno-long-long", source, "-o", output]);
            let wanted: String = sample(&layout).iter().map(|point| expected(&layout, point)).collect();
            assert_eq!(run(output, &[]), wanted);
        }
    }
}

#[test]
fn the_rust_functions_compute_the_placement() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for seed in [5, 6] {
        let layout = plan(seed);
        let fields = ["dim_for", "dim_seq", "dim_two_words", "dim_x_2"];
        let row = |point: &Point| {
            let fields: Vec<String> = fields
                .iter()
                .zip(point.values())
                .map(|(field, extent)| format!("{field}: {extent}"))
                .collect();
            format!("plan::Extents {{ {} }}", fields.join(", "))
        };
        let rows: Vec<String> = sample(&layout).iter().map(row).collect();
        let program = format!(
            "#[allow(dead_code)]\nmod plan {{\n{}\n}}\nfn main() {{\n    for at in [{}] {{\n        \
             for found in [plan::placement_at(&at).unwrap(), plan::fixed_placement_at(&at).unwrap()] {{\n            \
             for (size, offset) in found.sizes.iter().zip(&found.offsets) {{ print!(\"{{size}} {{offset}} \"); }}\n            \
             println!(\"{{}}\", found.arenas[0]);\n        }}\n        println!(\"{{}}\", plan::bytes_an_input(&at));\n    }}\n    \
             let mut other = {};\n    other.dim_seq = 13;\n    assert!(plan::placement_at(&other).is_none());\n}}\n",
            to_rust(&layout),
            rows.join(", "),
            rows[0]
        );
        let (source, output) =
            (folder.join(format!("ranges{seed}.rs")), folder.join(format!("ranges_rust{seed}")));
        std::fs::write(&source, program).unwrap();
        let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
        let (source, output) = (source.to_str().unwrap(), output.to_str().unwrap());
        run(&compiler, &["--edition=2024", "-Dwarnings", source, "-o", output]);
        let wanted: String = sample(&layout).iter().map(|point| expected(&layout, point)).collect();
        assert_eq!(run(output, &[]), wanted);
    }
}
