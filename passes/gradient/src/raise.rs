//! Gives nodes of old operator sets the form that they have in set 13.
//!
//! Source: the history of the operators in ONNX's schemas. From set 9 to 17 most operators only took more
//! element types, or attributes whose default is the old meaning.

use memc_ir::{Attribute, ElementType, Node, NodeData, Operator, Rewriter, TensorType, Value};
use memc_ops::{Data, Item};

/// First operator set in which all nodes have the present form.
pub(crate) const PRESENT: i64 = 13;

/// Gives a node of operator set `version`, from 9 to 12, the form of set 13; returns false if it has no such
/// form here. Operators without an arm mean the same in all these sets.
pub(crate) fn raise(rewriter: &mut Rewriter<'_>, node: Node, version: i64) -> bool {
    let data = rewriter.module().node(node).clone();
    let mut own = Raised { rewriter, node, data };
    let raised = match &*own.data.operator.name {
        "Squeeze" | "Unsqueeze" | "ReduceSum" => own.state_as_operands(&["axes"]),
        "Split" => own.state_as_operands(&["split"]),
        "Slice" if version < 10 => own.state_as_operands(&["starts", "ends", "axes"]),
        "TopK" if version < 10 => own.state_as_operands(&["k"]),
        "Pad" if version < 11 => own.state_as_operands(&["pads", "value"]),
        "Clip" if version < 11 => own.state_as_operands(&["min", "max"]),
        "Dropout" if version < 12 => own.inferring(),
        "Upsample" => own.resized(),
        "Resize" if version < 11 => own.resized(),
        "Scatter" => own.renamed("ScatterElements"),
        "Softmax" | "LogSoftmax" | "Hardmax" => own.one_axis(),
        _ => Some(()),
    };
    raised.is_some()
}

/// A node that gets another form. Its methods return `None` if it has no such form.
struct Raised<'r, 'm> {
    rewriter: &'r mut Rewriter<'m>,
    node: Node,
    data: NodeData,
}

impl Raised<'_, '_> {
    /// Turns attributes into the operands that follow operand 0, in order.
    fn state_as_operands(&mut self, names: &[&str]) -> Option<()> {
        let mut operands: Vec<Option<Value>> = self.data.inputs.iter().take(1).copied().collect();
        for name in names {
            let constant = match self.data.attribute(name) {
                None => None,
                Some(Attribute::Int(number)) => Some(integers(&[*number])?),
                Some(Attribute::Ints(numbers)) => Some(integers(numbers)?),
                Some(Attribute::Float(number)) => Some(self.scalar(f64::from(*number))?),
                Some(_) => return None,
            };
            operands.push(match constant {
                None => None,
                Some(constant) => Some(self.constant(name, &constant)?),
            });
        }
        let mut attributes = self.data.attributes.clone();
        attributes.retain(|(name, _)| !names.contains(&name.as_str()));
        self.rewriter.redefine(self.node, self.data.operator.clone(), operands, attributes);
        Some(())
    }

    /// States how positions of an enlarged image were found before they could be chosen.
    fn resized(&mut self) -> Option<()> {
        let [image, scales] = *self.data.inputs.as_slice() else { return None };
        let mut attributes = self.data.attributes.clone();
        let text = |text: &str| Attribute::String(text.as_bytes().to_vec().into());
        attributes.push(("coordinate_transformation_mode".to_owned(), text("asymmetric")));
        attributes.push(("nearest_mode".to_owned(), text("floor")));
        let operator = Operator::onnx("Resize", PRESENT);
        self.rewriter.redefine(self.node, operator, vec![image, None, scales], attributes);
        Some(())
    }

    /// Leaves out the ratio, which a Dropout did not read unless it trained: it always inferred.
    fn inferring(&mut self) -> Option<()> {
        let operands = self.data.inputs.clone();
        self.rewriter.redefine(self.node, self.data.operator.clone(), operands, Vec::new());
        Some(())
    }

    fn renamed(&mut self, name: &str) -> Option<()> {
        let (operands, attributes) = (self.data.inputs.clone(), self.data.attributes.clone());
        self.rewriter.redefine(self.node, Operator::onnx(name, PRESENT), operands, attributes);
        Some(())
    }

    /// Before set 13 all axes from one on are one, which is a single axis if the others have extent 1.
    fn one_axis(&mut self) -> Option<()> {
        let operand = self.data.operands().next()?;
        let dims = self.rewriter.module().ty(operand).tensor()?.shape.clone()?;
        let axis = memc_ops::normalize_axis(self.data.int("axis", 1), dims.len())?;
        if dims[axis + 1..].iter().any(|dim| dim.known() != Some(1)) {
            return None;
        }
        let attributes = vec![("axis".to_owned(), Attribute::Int(axis as i64))];
        let operands = self.data.inputs.clone();
        self.rewriter.redefine(self.node, self.data.operator.clone(), operands, attributes);
        Some(())
    }

    /// Returns a number in the element type of operand 0.
    fn scalar(&self, number: f64) -> Option<Data> {
        let element = self.rewriter.module().ty(self.data.operands().next()?).tensor()?.element;
        Data::new(element, Vec::new(), vec![Item::Float(number)])
    }

    /// Adds a constant to the graph of the node.
    fn constant(&mut self, name: &str, data: &Data) -> Option<Value> {
        let constant = memc_edit::constant(TensorType::fixed(data.element, &data.dims), data.to_raw()?);
        let fresh = self.rewriter.fresh_name(name);
        Some(self.rewriter.initializer(self.data.graph, &fresh, constant))
    }
}

fn integers(numbers: &[i64]) -> Option<Data> {
    let items = numbers.iter().copied().map(Item::Int).collect();
    Data::new(ElementType::Int64, vec![numbers.len() as u64], items)
}
