//! Fuzz test of every operator with random operands and attributes: no shape function, arithmetic
//! formula or workspace formula may panic or overflow, for any file.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use memc_ir::{Attribute, Dim, ElementType, TensorType, ValueType};

use super::testing::Case;
use crate::fact::{Data, Fact, Item};
use crate::table;

/// Marsaglia's xorshift; fixed seeds make failures reproducible.
struct Noise(u64);

impl Noise {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }
    fn int(&mut self) -> i64 {
        match self.below(8) {
            0 => self.pick(&[i64::MIN, i64::MAX, 1 << 62, -(1 << 62), i64::from(i32::MAX), u32::MAX.into()]),
            1 => -(self.below(5) as i64),
            2 => self.below(1 << 20) as i64,
            _ => self.below(5) as i64,
        }
    }
    fn ints(&mut self) -> Vec<i64> {
        (0..self.below(7)).map(|_| self.int()).collect()
    }
    fn dim(&mut self) -> Dim {
        match self.below(10) {
            0 => Dim::Unknown,
            1 => Dim::from_name(self.pick(&["N", "2*N+1", "N*M", "N-M"])),
            2 => Dim::Known(self.pick(&[u64::MAX, 1 << 62, 1 << 32, i64::MAX as u64])),
            _ => Dim::Known(self.below(6)),
        }
    }
    fn element(&mut self) -> ElementType {
        self.pick(&[
            ElementType::Float,
            ElementType::Int64,
            ElementType::Bool,
            ElementType::Int4,
            ElementType::String,
            ElementType::Other(99),
        ])
    }
    fn tensor(&mut self) -> TensorType {
        let shape = (self.below(10) > 0).then(|| (0..self.below(6)).map(|_| self.dim()).collect());
        TensorType { element: self.element(), shape }
    }
    fn fact(&mut self) -> Fact {
        match self.below(8) {
            0 => Fact::default(),
            1 => Fact::of(ValueType::Sequence(Box::new(ValueType::Tensor(self.tensor())))),
            2 => Fact::of(ValueType::Optional(Box::new(ValueType::Tensor(self.tensor())))),
            3 | 4 => {
                let items: Vec<Item> = (0..self.below(6)).map(|_| self.item()).collect();
                let dims = if items.len() == 1 && self.below(2) == 0 {
                    Vec::new()
                } else {
                    vec![items.len() as u64]
                };
                Fact::with_data(Data::new(self.element(), dims, items).unwrap())
            }
            _ => Fact::tensor(self.tensor()),
        }
    }
    fn item(&mut self) -> Item {
        match self.below(5) {
            0 => Item::Unknown,
            1 => Item::Float(self.pick(&[0.5, 2.0, f64::NAN, f64::INFINITY, -1.0, 1e30, 0.0])),
            2 => self.dim().expr().map_or(Item::Unknown, Item::from_expr),
            _ => Item::Int(self.int()),
        }
    }
    fn attribute(&mut self) -> Attribute {
        match self.below(6) {
            0 => Attribute::Float(self.pick(&[0.0, -1.0, f32::NAN, 1e30])),
            1 => Attribute::String(
                self.pick(&["SAME_UPPER", "VALID", "ab,bc->ac", "...i,i...", "none", "cubic", "->", ""])
                    .into(),
            ),
            2 => Attribute::Floats(vec![self.pick(&[0.5, f32::NAN, 3.0, 1e30]); self.below(5) as usize]),
            3 => Attribute::Int(self.int()),
            _ => Attribute::Ints(self.ints()),
        }
    }
}

/// Names of attributes that determine shapes or formulas, with the kind that the standard gives them
/// first.
const INTS: &[&str] = &[
    "kernel_shape",
    "strides",
    "dilations",
    "pads",
    "output_padding",
    "output_shape",
    "axes",
    "perm",
    "shape",
    "split",
    "starts",
    "ends",
    "pooled_shape",
    "scan_input_axes",
    "scan_output_axes",
    "ngram_indexes",
];
const INT: &[&str] = &[
    "axis",
    "group",
    "ceil_mode",
    "size",
    "hidden_size",
    "layout",
    "num_scan_inputs",
    "q_num_heads",
    "kv_num_heads",
    "transA",
    "blocksize",
    "keepdims",
    "onesided",
    "inverse",
    "to",
    "dtype",
    "output_dtype",
    "sample_size",
    "batch_dims",
    "num_outputs",
    "output_height",
    "new_axis",
    "start",
    "end",
    "sampling_ratio",
    "allowzero",
    "select_last_index",
    "num_heads",
    "noop_with_empty_axes",
];
const STRINGS: &[(&str, &[&str])] = &[
    ("auto_pad", &["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]),
    ("equation", &["ab,bc->ac", "...i,i...->...", "a,a", "i->", "z->q", "1", ",,->"]),
    ("reduction", &["none", "sum"]),
    ("direction", &["bidirectional", "reverse"]),
    ("keep_aspect_ratio_policy", &["not_larger", "not_smaller", "stretch"]),
    ("mode", &["linear", "cubic", "nearest"]),
];

fn throw(domain: &str, name: &str, noise: &mut Noise) -> Case {
    let version = noise.pick(&[7, 8, 9, 10, 11, 13, 17, 18, 20, 22, 24, 28]);
    let mut case = Case::of(domain, name, version);
    for _ in 0..noise.below(8) {
        let fact = (noise.below(8) > 0).then(|| noise.fact());
        case = case.fact(fact);
    }
    for name in INTS {
        if noise.below(3) == 0 {
            let values = noise.ints();
            case = case.ints(name, &values);
        }
    }
    for name in INT {
        match noise.below(8) {
            0 => case = case.attribute(name, noise.attribute()),
            1 | 2 => case = case.int(name, noise.int()),
            _ => {}
        }
    }
    for (name, values) in STRINGS {
        if noise.below(3) == 0 {
            case = case.string(name, noise.pick(values));
        }
    }
    if noise.below(4) > 0 {
        let types = ["f32[2,3]", "i64[N]", "bool[]", "seq<f32[*]>", "unknown"];
        for body in ["body", "then_branch", "else_branch", "score_mod"] {
            let inputs: Vec<&str> = (0..noise.below(7)).map(|_| noise.pick(&types)).collect();
            let outputs: Vec<&str> = (0..noise.below(7)).map(|_| noise.pick(&types)).collect();
            case = case.body(body, &inputs, &outputs);
        }
    }
    case.outputs(noise.below(6) as usize)
}

#[test]
fn no_operator_panics_on_random_nodes() {
    for (index, info) in table::all().iter().enumerate() {
        for round in 0..200 {
            let seed = 0x9E37_79B9_7F4A_7C15 ^ ((index as u64) << 32) ^ (round + 1);
            let run = || throw(info.domain, info.name, &mut Noise(seed)).costs();
            assert!(std::panic::catch_unwind(run).is_ok(), "{}::{} in round {round}", info.domain, info.name);
        }
    }
}
