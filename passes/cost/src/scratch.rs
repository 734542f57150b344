//! Scratch files: the workspace of kernels that memc does not know, by operator, as expressions over
//! extents.

use std::collections::BTreeMap;

use memc_ir::{Bytes, DimExpr, Module, Node, TensorType};
use memc_ops::Typed;
use serde::Deserialize;

/// Value of the key `schema`.
pub const VERSION: &str = "memc.scratch/1";

/// Rejects a text that is no scratch file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScratchError {
    /// The text is not JSON, or a key is missing, unknown or of the wrong type.
    #[error("{message}")]
    Form {
        /// Message of the parser, with line and column.
        message: String,
    },
    /// The file has another version.
    #[error("the schema is `{found}`, not `{VERSION}`")]
    Version {
        /// Version in the file.
        found: String,
    },
    /// A text is no expression.
    #[error("`{text}`, the scratch of {operator}, is no expression over extents")]
    Expression {
        /// The operator, or `default`.
        operator: String,
        /// The text.
        text: String,
    },
    /// An expression uses an unknown name.
    #[error("`{name}` in the scratch of {operator} is unknown")]
    Name {
        /// The operator, or `default`.
        operator: String,
        /// The name.
        name: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScratchFile {
    schema: String,
    default: Option<String>,
    #[serde(default)]
    operators: BTreeMap<String, String>,
}

/// Workspace of kernels by operator.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ScratchRules {
    /// Workspace of operators without a row; `None` leaves it to the operator table.
    default: Option<Rule>,
    /// Rows by operator, `Conv` or `com.microsoft::FusedConv`.
    rows: BTreeMap<String, Rule>,
}

/// An expression with the names that it uses.
#[derive(Clone, PartialEq, Debug)]
struct Rule {
    bytes: DimExpr,
    names: Vec<(String, Variable)>,
}

/// A number of a node: of an operand or a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Variable {
    is_result: bool,
    position: usize,
    of: Quantity,
}

/// A number of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Quantity {
    /// Extent of an axis, from the first.
    Axis(usize),
    /// Extent of an axis, from the last, which is 1.
    FromLast(usize),
    /// Number of elements.
    Elements,
    /// Size in bytes.
    Bytes,
    /// Bytes of an element, rounded up.
    Width,
}

impl Variable {
    /// Reads `in0_2`, `out0_last1`, `in1_elements`, `in1_bytes` or `in1_width`.
    fn parse(name: &str) -> Option<Self> {
        let (tensor, of) = name.split_once('_')?;
        let (is_result, position) = match tensor.strip_prefix("in") {
            Some(position) => (false, position),
            None => (true, tensor.strip_prefix("out")?),
        };
        let of = match of {
            "elements" => Quantity::Elements,
            "bytes" => Quantity::Bytes,
            "width" => Quantity::Width,
            _ => match of.strip_prefix("last") {
                Some(axis) => Quantity::FromLast(axis.parse().ok().filter(|axis| *axis > 0)?),
                None => Quantity::Axis(of.parse().ok()?),
            },
        };
        Some(Self { is_result, position: position.parse().ok()?, of })
    }

    /// Returns the number at a node; `None` if it is unknown. A tensor that the node lacks has no elements,
    /// and an axis that the tensor lacks has extent 1.
    fn at(self, typed: &Typed<'_>) -> Option<u64> {
        let data = typed.data();
        let all = if self.is_result { &data.outputs } else { &data.inputs };
        let Some(value) = all.get(self.position).copied().flatten() else { return Some(0) };
        let ty: &TensorType = typed.module.ty(value).tensor()?;
        match self.of {
            Quantity::Elements => ty.elements(),
            Quantity::Bytes => ty.size().map(|bytes| bytes.0),
            Quantity::Width => ty.element.bits().map(|bits| u64::from(bits).div_ceil(8)),
            Quantity::Axis(axis) => Some(ty.known_dims()?.get(axis).copied().unwrap_or(1)),
            Quantity::FromLast(axis) => {
                let dims = ty.known_dims()?;
                Some(dims.len().checked_sub(axis).and_then(|axis| dims.get(axis)).copied().unwrap_or(1))
            }
        }
    }
}

impl Rule {
    fn parse(operator: &str, text: &str) -> Result<Self, ScratchError> {
        let wrong = || ScratchError::Expression {
            operator: operator.to_owned(),
            text: text.chars().take(64).collect(),
        };
        let bytes = DimExpr::parse(text).ok_or_else(wrong)?;
        let mut names = Vec::new();
        for name in bytes.symbols() {
            let unknown = || ScratchError::Name {
                operator: operator.to_owned(),
                name: name.chars().take(64).collect(),
            };
            names.push((name.to_string(), Variable::parse(&name).ok_or_else(unknown)?));
        }
        Ok(Self { bytes, names })
    }

    /// Returns the bytes at a node, 0 for a negative number; `None` if an extent is unknown or the number
    /// has more than 63 bits.
    fn at(&self, typed: &Typed<'_>) -> Option<Bytes> {
        let mut extents = BTreeMap::new();
        for (name, variable) in &self.names {
            extents.insert(name.clone(), variable.at(typed)?);
        }
        let bytes = self.bytes.bind(&extents)?.as_constant()?;
        Some(Bytes(u64::try_from(bytes).unwrap_or(0)))
    }
}

impl ScratchRules {
    /// Reads a scratch file.
    ///
    /// # Errors
    /// The text is not JSON of the known version, or a row is no expression over extents.
    pub fn from_json(text: &str) -> Result<Self, ScratchError> {
        let file: ScratchFile =
            serde_json::from_str(text).map_err(|error| ScratchError::Form { message: error.to_string() })?;
        if file.schema != VERSION {
            return Err(ScratchError::Version { found: file.schema.chars().take(64).collect() });
        }
        let default = file.default.map(|text| Rule::parse("default", &text)).transpose()?;
        let rows = file.operators.into_iter().map(|(operator, text)| {
            let rule = Rule::parse(&operator, &text)?;
            Ok((operator, rule))
        });
        Ok(Self { default, rows: rows.collect::<Result<_, ScratchError>>()? })
    }

    /// Returns the workspace of a node; `None` if the file does not state it or an extent is unknown.
    pub fn bytes(&self, module: &Module, node: Node) -> Option<Bytes> {
        let operator = &module.node(node).operator;
        let row = match &*operator.domain {
            "" => self.rows.get(&*operator.name),
            domain => self.rows.get(&format!("{domain}::{}", operator.name)),
        };
        row.or(self.default.as_ref())?.at(&Typed::largest(module, node))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn rules(default: &str, rows: &[(&str, &str)]) -> Result<ScratchRules, ScratchError> {
        let rows: Vec<String> =
            rows.iter().map(|(operator, text)| format!("\"{operator}\": \"{text}\"")).collect();
        let default =
            if default.is_empty() { String::new() } else { format!("\"default\": \"{default}\", ") };
        ScratchRules::from_json(&format!(
            "{{\"schema\": \"{VERSION}\", {default}\"operators\": {{{}}}}}",
            rows.join(", ")
        ))
    }

    /// Returns the workspace of the nodes of a module.
    fn told(rules: &ScratchRules, graph: &str) -> Vec<Option<u64>> {
        let mut module =
            memc_ir::text::parse(&format!("mem 1\nir_version 10\nopset \"\" 21\n\n{graph}")).unwrap();
        memc_ops::infer(&mut module);
        let nodes = module.graph(module.main()).nodes.clone();
        nodes.iter().map(|node| rules.bytes(&module, *node).map(|bytes| bytes.0)).collect()
    }

    #[test]
    fn expressions_are_over_extents_of_operands_and_results() {
        let graph = "graph @g {\n  input %x : f16[2,3,0]\n  input %n : f32[N]\n  %a = Relu(%x) : f16[2,3,0]\n  \
                     %b = Neg(%n) : f32[N]\n  %c = Exp(%x) : f16[2,3,0]\n  return %a, %b, %c\n}\n";
        for (text, expected) in [
            ("4*in0_0 + in0_1", 11),
            ("in0_2", 0),
            ("in0_5", 1),
            ("in0_last3", 2),
            ("in0_last9", 1),
            ("in3_0 + in3_bytes", 0),
            ("out0_width * 100", 200),
            ("in0_elements + out0_bytes + 7", 7),
            ("in0_0 - in0_1", 0),
            ("max(in0_0, in0_1) * 16", 48),
            ("(in0_1 + 1) // 2 * 2", 4),
            ("0", 0),
        ] {
            let rules = rules("", &[("Relu", text), ("Neg", "in0_0")]).unwrap();
            assert_eq!(told(&rules, graph), [Some(expected), None, None], "{text}");
        }
        let all = rules("64", &[("Relu", "1")]).unwrap();
        assert_eq!(told(&all, graph), [Some(1), Some(64), Some(64)]);
    }

    #[test]
    fn operators_of_other_domains_have_their_domain() {
        let graph = "graph @g {\n  input %x : f32[8]\n  %a = com.microsoft::FastGelu version 1(%x) : f32[8]\n  return %a\n}\n";
        assert_eq!(told(&rules("", &[("com.microsoft::FastGelu", "in0_0")]).unwrap(), graph), [Some(8)]);
        assert_eq!(told(&rules("", &[("FastGelu", "in0_0")]).unwrap(), graph), [None]);
    }

    #[test]
    fn wrong_files_are_refused() {
        for text in ["", "4 *", "4 * (in0_0", "in0_0 / 3", "sqrt(in0_0)", "1.5", "in-1_0"] {
            assert!(matches!(rules("", &[("Conv", text)]), Err(ScratchError::Expression { .. })), "{text}");
        }
        for name in ["height", "in_0", "x0_1", "in0_", "in0_last0", "out0_size"] {
            assert!(matches!(rules(name, &[]), Err(ScratchError::Name { .. })), "{name}");
        }
        assert!(matches!(ScratchRules::from_json("{}"), Err(ScratchError::Form { .. })));
        let other = "{\"schema\": \"memc.scratch/2\"}";
        assert_eq!(
            ScratchRules::from_json(other),
            Err(ScratchError::Version { found: "memc.scratch/2".to_owned() })
        );
    }
}
