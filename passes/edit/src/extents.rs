//! Extents that a run computes from the extents of graph inputs: operands of nodes whose shapes have
//! symbols.

use memc_ir::{Atom, Dim, DimExpr, ElementType, Factor, Module, NewNode, Node, TensorType, Value, ValueType};

use crate::maker::{Maker, int};

/// First version of the operator set in which kernels take minima and maxima of integers.
const INTEGERS: i64 = 12;

/// Returns whether a run can compute every extent of a module: each symbol of its domain is the extent of
/// an axis of a graph input, and the operator set has the operators.
#[must_use]
pub fn are_computable(module: &Module) -> bool {
    let domain = module.domain();
    let version = module.opsets.get("").copied().unwrap_or_default();
    domain.is_empty()
        || version >= INTEGERS && domain.ranges.keys().all(|symbol| source(module, symbol).is_some())
}

/// Says why a run cannot compute an extent; `None` if it can.
#[must_use]
pub fn obstacle(module: &Module, extent: &DimExpr) -> Option<String> {
    let version = module.opsets.get("").copied().unwrap_or_default();
    if let Some(symbol) = extent.symbols().iter().find(|symbol| source(module, symbol).is_none()) {
        return Some(format!(
            "no graph input has an axis of extent `{symbol}`, from which a run could know it"
        ));
    }
    let is_plain = |factor: &Factor| matches!(factor, Factor::Symbol(_));
    (version < INTEGERS && !extent.terms().all(|(factors, _)| factors.iter().all(is_plain))).then(|| {
        format!("a run cannot compute the extent {extent} in operator set {version}: convert the model to {INTEGERS} or later")
    })
}

/// Returns a graph input and the axis of it whose extent is a symbol.
fn source(module: &Module, symbol: &str) -> Option<(Value, usize)> {
    let inputs = &module.graph(module.main()).inputs;
    inputs.iter().find_map(|input| {
        let dims = module.ty(*input).tensor()?.shape.as_deref()?;
        let is_it = |dim: &Dim| matches!(dim, Dim::Symbolic(expr) if expr.as_symbol() == Some(symbol));
        Some((*input, dims.iter().position(is_it)?))
    })
}

impl Maker<'_> {
    /// Nodes that compute extents and have no place yet, in running order: they run before all other nodes.
    #[must_use]
    pub fn extent_nodes(&self) -> &[Node] {
        &self.computed.nodes
    }

    /// Returns a vector of extents, in the default form. With `derives`, one extent may be left to the node
    /// that reads it, as a Reshape does with -1.
    pub fn extents(&mut self, dims: &[Dim], derives: bool) -> Value {
        let number = |dim: &Dim| dim.known().map(|extent| i64::try_from(extent).unwrap_or(i64::MAX));
        let numbers: Vec<Option<i64>> = dims.iter().map(number).collect();
        let open = numbers.iter().filter(|number| number.is_none()).count();
        let has_zero = numbers.contains(&Some(0));
        if open == 0 || open == 1 && derives && !has_zero {
            let numbers: Vec<i64> = numbers.into_iter().map(|number| number.unwrap_or(-1)).collect();
            return self.integers(&numbers);
        }
        let all = dims.iter().map(|dim| dim.expr().unwrap_or_else(|| DimExpr::constant(0))).collect();
        self.vector(all)
    }

    /// Returns a vector of extents in the default form, with -1 in place of the extent at a position: the
    /// Reshape that reads it derives this extent, also where it is zero.
    pub fn extents_but(&mut self, dims: &[Dim], derived: usize) -> Value {
        let number = |(at, dim): (usize, &Dim)| {
            let stated = dim.expr().filter(|_| at != derived);
            stated.unwrap_or_else(|| DimExpr::constant(if at == derived { -1 } else { 0 }))
        };
        let all: Vec<DimExpr> = dims.iter().enumerate().map(number).collect();
        match all.iter().map(DimExpr::as_constant).collect::<Option<Vec<i64>>>() {
            Some(numbers) => self.integers(&numbers),
            None => self.vector(all),
        }
    }

    /// Returns a vector of extents of which the run computes at least one.
    fn vector(&mut self, all: Vec<DimExpr>) -> Value {
        if let Some(known) = self.computed.vectors.get(&all) {
            return *known;
        }
        let parts: Vec<Value> = all.iter().map(|extent| self.extent(extent)).collect();
        let vector = self.extent_of(self.onnx("Concat", parts, int("axis", 0)), &[all.len() as u64]);
        self.computed.vectors.insert(all, vector);
        vector
    }

    /// Returns an extent in the maker's form. An extent that a run cannot compute (see [`obstacle`]) has
    /// zeros in place of symbols.
    pub fn extent(&mut self, extent: &DimExpr) -> Value {
        if let Some(number) = extent.as_constant() {
            return self.number(number);
        }
        if let Some(known) = self.computed.values.get(extent) {
            return *known;
        }
        let terms: Vec<(Vec<Factor>, i64)> =
            extent.terms().map(|(factors, times)| (factors.to_vec(), times)).collect();
        let mut sum = None;
        for (factors, times) in terms {
            let mut product = if times == 1 && !factors.is_empty() { None } else { Some(self.number(times)) };
            for factor in &factors {
                let factor = self.factor(factor);
                product = Some(product.map_or(factor, |product| self.both("Mul", product, factor)));
            }
            let Some(term) = product else { continue };
            sum = Some(sum.map_or(term, |sum| self.both("Add", sum, term)));
        }
        let made = sum.unwrap_or_else(|| self.number(0));
        self.computed.values.insert(extent.clone(), made);
        made
    }

    fn number(&mut self, number: i64) -> Value {
        match self.form.is_shared {
            true => self.integers(&[number]),
            false => self.integer_tensor(self.form.hints[0], self.form.dims, &[number]),
        }
    }

    fn factor(&mut self, factor: &Factor) -> Value {
        match factor {
            Factor::Symbol(name) => self.symbol(name),
            Factor::Atom(atom) => match atom.as_ref() {
                Atom::Floor { of, by } => self.quotient(of, by),
                Atom::Min(operands) => self.chosen("Min", operands),
                Atom::Max(operands) => self.chosen("Max", operands),
            },
        }
    }

    fn symbol(&mut self, name: &str) -> Value {
        let key = DimExpr::symbol(name);
        if let Some(known) = self.computed.values.get(&key) {
            return *known;
        }
        let Some((input, axis)) = source(self.module(), name) else { return self.number(0) };
        let shape = match self.computed.shapes.get(&input).filter(|_| self.form.is_shared) {
            Some(known) => *known,
            None => {
                let rank = self.module().ty(input).tensor().and_then(TensorType::rank).unwrap_or_default();
                let shape =
                    self.written(self.onnx("Shape", [input], Vec::new()), self.form.hints[1], &[rank as u64]);
                self.computed.shapes.insert(input, shape);
                shape
            }
        };
        let index = self.number(axis as i64);
        let made = self.extent_of(self.onnx("Gather", [shape, index], int("axis", 0)), self.form.dims);
        self.computed.values.insert(key, made);
        made
    }

    /// Returns a quotient rounded down. Kernels round toward zero, so a dividend that may be negative
    /// loses its remainder first.
    fn quotient(&mut self, of: &DimExpr, by: &DimExpr) -> Value {
        let key = (of.clone(), by.clone());
        if let Some(known) = self.computed.quotients.get(&key) {
            return *known;
        }
        let is_extent = of.lower_bound(&self.module().domain().ranges).is_some_and(|least| least >= 0);
        let (dividend, divisor) = (self.extent(of), self.extent(by));
        let dividend = if is_extent {
            dividend
        } else {
            let rest = self.both("Mod", dividend, divisor);
            self.both("Sub", dividend, rest)
        };
        let made = self.both("Div", dividend, divisor);
        self.computed.quotients.insert(key, made);
        made
    }

    fn chosen(&mut self, operator: &str, operands: &[DimExpr]) -> Value {
        let operands: Vec<Value> = operands.iter().map(|operand| self.extent(operand)).collect();
        self.extent_of(self.onnx(operator, operands, Vec::new()), self.form.dims)
    }

    fn both(&mut self, operator: &str, left: Value, right: Value) -> Value {
        self.extent_of(self.onnx(operator, [left, right], Vec::new()), self.form.dims)
    }

    fn extent_of(&mut self, new: NewNode, dims: &[u64]) -> Value {
        self.written(new, self.form.hints[2], dims)
    }

    /// Inserts a node; returns its result, a tensor of integers.
    fn written(&mut self, new: NewNode, hint: &str, dims: &[u64]) -> Value {
        let (name, ty) =
            (self.fresh_name(hint), ValueType::Tensor(TensorType::fixed(ElementType::Int64, dims)));
        let first = new.inputs.iter().flatten().next().copied();
        let node = self.insert(self.form.before, new, &[Some((name, ty))]);
        if self.form.before.is_none() {
            self.computed.nodes.push(node);
        }
        // The node was made with one result.
        self.result(node).or(first).unwrap_or_else(|| self.number(0))
    }
}
