//! A model as the checks use it: nodes of the main graph with all values they read, values by name, and
//! sizes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use memc_ir::{
    Definition, Diagnostic, Dim, DimExpr, ElementType, EntityId as _, Module, Node, Origin, Payload,
    SecondaryMap, TensorType, Value, ValueType,
};
use memc_onnx_import::{ImportError, ImportOptions, import};
use memc_onnx_proto::ModelFile;
use memc_ops::{Data, OpInfo, lookup};

use crate::extents::Extents;

/// Domain of the two transfer operators.
pub(crate) const TRANSFER_DOMAIN: &str = "ai.memc";

/// Element type and extents of a value of known or bounded size.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Known {
    pub(crate) element: ElementType,
    /// Extents; upper bounds if the value has free extents.
    pub(crate) dims: Vec<u64>,
    /// Extents and sizes as expressions, if an extent depends on free dimensions.
    pub(crate) free: Option<Arc<Free>>,
}

/// Extents and sizes as expressions over free dimensions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Free {
    pub(crate) dims: Vec<DimExpr>,
    /// Number of elements, simplified for the ranges: equal counts can have several products. `None` for a
    /// product of too many terms.
    pub(crate) elements: Option<DimExpr>,
    /// Size in bytes, as a product of the extents; `None` for a product of too many terms.
    pub(crate) bytes: Option<DimExpr>,
    /// Size in bytes, simplified for the ranges.
    pub(crate) size: Option<DimExpr>,
    /// Size at one corner of the extents: at most the largest size.
    pub(crate) reached: u64,
}

impl Known {
    pub(crate) fn of(ty: &TensorType) -> Option<Self> {
        ty.size()?;
        Some(Self { element: ty.element, dims: ty.known_dims()?, free: None })
    }
    /// Returns a type of known size, or of a size that free dimensions bound.
    pub(crate) fn within(ty: &TensorType, extents: &Extents) -> Option<Self> {
        let shape = ty.shape.as_ref()?;
        if shape.iter().all(|dim| dim.known().is_some()) {
            return Self::of(ty);
        }
        let dims: Vec<DimExpr> = shape.iter().map(Dim::expr).collect::<Option<_>>()?;
        let most = |dim: &DimExpr| extents.highest(dim).and_then(|most| u64::try_from(most.max(0)).ok());
        let bounds: Vec<u64> = dims.iter().map(most).collect::<Option<_>>()?;
        TensorType::fixed(ty.element, &bounds).size()?;
        let elements = dims.iter().try_fold(DimExpr::constant(1), |product, dim| product.mul(dim));
        let bits = DimExpr::constant(ty.element.bits()?.into());
        let rounded = |bits: DimExpr| bits.add(&DimExpr::constant(7))?.floor_div(&DimExpr::constant(8));
        let bytes = elements.as_ref().and_then(|elements| rounded(elements.mul(&bits)?));
        let reached =
            bytes.as_ref().and_then(|bytes| u64::try_from(extents.reached(bytes)).ok()).unwrap_or(0);
        let simple = |of: &Option<DimExpr>| of.as_ref().map(|of| extents.simplified(of));
        let (elements, size) = (simple(&elements), simple(&bytes));
        Some(Self {
            element: ty.element,
            dims: bounds,
            free: Some(Arc::new(Free { dims, elements, bytes, size, reached })),
        })
    }
    /// Returns the size in bytes, an upper bound if the value has free extents. Sizes above 2^62 return 0,
    /// but [`Known::of`] rejects them.
    pub(crate) fn bytes(&self) -> u64 {
        TensorType::fixed(self.element, &self.dims).size().map_or(0, |size| size.0)
    }
    /// Returns a lower bound of the largest size, in bytes: the size itself if it is known.
    pub(crate) fn least_bytes(&self) -> u64 {
        self.free.as_ref().map_or_else(|| self.bytes(), |free| free.reached)
    }
    /// Returns the extents as expressions.
    pub(crate) fn dim_exprs(&self) -> Option<Vec<DimExpr>> {
        let number = |extent: &u64| i64::try_from(*extent).ok().map(DimExpr::constant);
        self.free
            .as_ref()
            .map_or_else(|| self.dims.iter().map(number).collect(), |free| Some(free.dims.clone()))
    }
    /// Returns the size in bytes as an expression.
    pub(crate) fn bytes_expr(&self) -> Option<DimExpr> {
        let number = || i64::try_from(self.bytes()).ok().map(DimExpr::constant);
        self.free.as_ref().map_or_else(number, |free| free.size.clone())
    }
    /// Whether both have provably equal numbers of elements.
    pub(crate) fn same_elements(&self, other: &Self) -> bool {
        let count = |known: &Self| {
            let number = || {
                TensorType::fixed(known.element, &known.dims)
                    .elements()
                    .and_then(|count| i64::try_from(count).ok())
            };
            known.free.as_ref().map_or_else(|| number().map(DimExpr::constant), |free| free.elements.clone())
        };
        match (count(self), count(other)) {
            (Some(own), Some(other)) => own == other,
            _ => self.dim_exprs().is_some_and(|own| other.dim_exprs() == Some(own)),
        }
    }
}

/// A node of the main graph.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) node: Node,
    /// Values of the main graph that the node or its bodies read, without repetition.
    pub(crate) reads: Vec<Value>,
    /// Position of the node in the file.
    pub(crate) file_index: u32,
    pub(crate) info: Option<&'static OpInfo>,
    /// Whether the node may compute a different result when it runs again.
    pub(crate) unrepeatable: bool,
}

/// One of the two models.
pub(crate) struct Side<'f> {
    pub(crate) file: &'f ModelFile,
    /// Extents of the free dimensions.
    pub(crate) extents: &'f Extents,
    pub(crate) module: Module,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) rows: Vec<Row>,
    /// Values of the main graph: inputs, initializers, and results in row order.
    pub(crate) values: Vec<Value>,
    pub(crate) named: HashMap<String, Value>,
    /// Row that computes a value.
    pub(crate) producer: SecondaryMap<Value, Option<usize>>,
    /// Type of each value of known size.
    pub(crate) known: SecondaryMap<Value, Option<Arc<Known>>>,
    /// Whether the value is a graph output.
    pub(crate) is_output: SecondaryMap<Value, bool>,
    data: SecondaryMap<Value, Option<Arc<Data>>>,
    /// Whether a value's elements depend on the default of a graph input. A caller may pass other
    /// elements.
    overridable: SecondaryMap<Value, bool>,
    /// Bytes of constants in other files, by the constant's index, if the check compares them.
    pub(crate) outside: BTreeMap<usize, Bytes>,
}

impl<'f> Side<'f> {
    /// Imports a model and indexes its main graph. A model that `fits` is not tried at points of its ranges.
    pub(crate) fn open(
        file: &'f ModelFile,
        dims: &BTreeMap<String, u64>,
        extents: &'f Extents,
        fits: bool,
    ) -> Result<Self, ImportError> {
        let open =
            if extents.is_empty() { BTreeSet::new() } else { memc_onnx_import::open_dimensions(file)? };
        let imported = import(file, &ImportOptions { fits, ..extents.options(dims, &open) })?;
        Ok(Self::of(file, extents, imported.module, imported.data, imported.diagnostics))
    }

    /// Returns this side with an edited module, of which inference found `elements`.
    pub(crate) fn with(&self, module: Module, elements: SecondaryMap<Value, Option<Arc<Data>>>) -> Self {
        Self {
            outside: self.outside.clone(),
            ..Self::of(self.file, self.extents, module, elements, Vec::new())
        }
    }

    /// Returns this side with a first extent of graph inputs in place of `old`, and all extents that follow
    /// from it. Nothing else that the file states of results holds for it.
    pub(crate) fn resized<'e>(
        &self,
        inputs: &BTreeSet<&str>,
        old: u64,
        new: &DimExpr,
        extents: &'e Extents,
    ) -> Side<'e>
    where
        'f: 'e,
    {
        let mut module = self.module.clone();
        module.forget_results();
        for input in inputs.iter().filter_map(|name| self.named.get(*name)) {
            let Some(mut ty) = module.ty(*input).tensor().cloned() else { continue };
            let first = ty.shape.as_mut().and_then(|dims| dims.first_mut());
            if let Some(first) = first.filter(|first| first.known() == Some(old)) {
                *first = Dim::Symbolic(new.clone());
                module.set_type(*input, ValueType::Tensor(ty));
            }
        }
        self.of_extents(module, extents)
    }

    /// Returns this side with a module whose extents are others.
    fn of_extents<'e>(&self, mut module: Module, extents: &'e Extents) -> Side<'e>
    where
        'f: 'e,
    {
        module.set_domain(extents.domain());
        let elements = memc_ops::infer(&mut module).data;
        Side { outside: self.outside.clone(), ..Side::of(self.file, extents, module, elements, Vec::new()) }
    }

    /// Returns this side with an expression in place of a free dimension, whose symbols have these extents.
    pub(crate) fn substituted<'e>(&self, name: &str, of: &DimExpr, extents: &'e Extents) -> Side<'e>
    where
        'f: 'e,
    {
        let mut module = self.module.clone();
        let equal = BTreeMap::from([(name.to_owned(), of.clone())]);
        let values: Vec<Value> = module.values().keys().collect();
        for value in values {
            let ty = module.ty(value).map_dims(&|dim| dim.substitute(&equal));
            module.set_type(value, ty);
        }
        self.of_extents(module, extents)
    }

    fn of(
        file: &'f ModelFile,
        extents: &'f Extents,
        module: Module,
        data: SecondaryMap<Value, Option<Arc<Data>>>,
        diagnostics: Vec<Diagnostic>,
    ) -> Self {
        let mut side = Self {
            file,
            extents,
            module,
            diagnostics,
            rows: Vec::new(),
            values: Vec::new(),
            named: HashMap::new(),
            producer: SecondaryMap::default(),
            known: SecondaryMap::default(),
            is_output: SecondaryMap::default(),
            data,
            overridable: SecondaryMap::default(),
            outside: BTreeMap::new(),
        };
        side.index();
        side.sizes();
        // Training mode depends on the elements of flags, which are known only now.
        for row in 0..side.rows.len() {
            side.rows[row].unrepeatable = side.may_differ(row);
        }
        side
    }

    /// Names of the files that hold constants.
    pub(crate) fn locations(&self) -> BTreeSet<&str> {
        let constants = self.module.constants().iter();
        let locations = constants.filter_map(|(_, data)| match &data.payload {
            Payload::External { location, .. } => Some(location.as_str()),
            Payload::Raw(_) | Payload::Elided => None,
        });
        locations.collect()
    }

    /// Takes the bytes of constants from other files, so that they are compared by content.
    pub(crate) fn take_outside(&mut self, bytes: impl Fn(&str, u64, u64) -> Option<Bytes>) {
        for (id, data) in self.module.constants().iter() {
            if let Payload::External { location, offset, .. } = &data.payload
                && let Some(size) = data.ty.size()
                && let Some(found) = bytes(location, *offset, size.0)
            {
                self.outside.insert(id.index(), found);
            }
        }
    }

    fn index(&mut self) {
        let module = &self.module;
        let main = module.graph(module.main());
        self.values.extend(main.inputs.iter().chain(&main.constants));
        for (at, node) in main.nodes.iter().enumerate() {
            let data = module.node(*node);
            let file_index = match data.origin {
                Origin::File { index } => index,
                _ => u32::MAX,
            };
            self.rows.push(Row {
                node: *node,
                reads: reads(module, *node),
                file_index,
                info: lookup(&data.operator),
                unrepeatable: true,
            });
            for result in data.results() {
                self.producer.set(result, Some(at));
                self.values.push(result);
            }
        }
        for value in &self.values {
            self.named.insert(module.value(*value).name.clone(), *value);
        }
        for value in &main.outputs {
            self.is_output.set(*value, true);
        }
    }

    fn sizes(&mut self) {
        for value in self.values.clone() {
            let mut known =
                self.module.ty(value).tensor().and_then(|ty| Known::within(ty, self.extents)).map(Arc::new);
            if let Some(row) = self.producer[value] {
                let operand = self.module.node(self.rows[row].node).operands().next();
                // A loaded tensor has the stored tensor's type, even if the operator table does not
                // state this.
                if known.is_none() && self.is_transfer(row) {
                    known = operand.and_then(|operand| self.known[operand].clone());
                }
                let tainted = self.rows[row]
                    .reads
                    .iter()
                    .any(|read| self.overridable[*read] && self.data[*read].is_some());
                self.overridable.set(value, tainted);
            } else {
                // Below IR version 4, initializers had to be listed as inputs, and a caller could not
                // override them.
                let overridable = self.module.value(value).default.is_some() && self.module.ir_version >= 4;
                self.overridable.set(value, overridable);
            }
            self.known.set(value, known);
        }
    }

    /// Returns the name of a value.
    pub(crate) fn name(&self, value: Value) -> &str {
        &self.module.value(value).name
    }
    /// Returns the name of a row's node.
    pub(crate) fn node_name(&self, row: usize) -> &str {
        &self.module.node(self.rows[row].node).name
    }
    /// Returns the name of a row's operator, for messages.
    pub(crate) fn operator(&self, row: usize) -> String {
        self.module.node(self.rows[row].node).operator.to_string()
    }
    /// Whether the row is one of the two transfer operators.
    pub(crate) fn is_transfer(&self, row: usize) -> bool {
        let operator = &self.module.node(self.rows[row].node).operator;
        &*operator.domain == TRANSFER_DOMAIN && matches!(&*operator.name, "SwapOut" | "SwapIn")
    }
    /// Returns the elements of a value that no caller can change, if they are known.
    pub(crate) fn elements(&self, value: Value) -> Option<&Arc<Data>> {
        self.data[value].as_ref().filter(|_| !self.overridable[value])
    }
    /// Returns the known elements of all values.
    pub(crate) fn all_elements(&self) -> &SecondaryMap<Value, Option<Arc<Data>>> {
        &self.data
    }
    /// Whether a row reads elements that a caller may replace.
    pub(crate) fn reads_overridable(&self, row: usize) -> bool {
        self.rows[row].reads.iter().any(|read| self.overridable[*read])
    }
    /// Returns the elements of a small integer tensor that no caller can change.
    pub(crate) fn integers(&self, value: Value) -> Option<Vec<i64>> {
        self.elements(value)?.known_ints()
    }
    /// Whether the value is an initializer, including initializers that are graph inputs.
    pub(crate) fn is_initializer(&self, value: Value) -> bool {
        let data = self.module.value(value);
        data.default.is_some() || matches!(data.definition, Definition::Constant(..))
    }
    /// Whether the value is a graph input, with or without a default.
    pub(crate) fn is_input(&self, value: Value) -> bool {
        matches!(self.module.value(value).definition, Definition::Input(..))
    }
}

/// Returns the values of the main graph that a node reads: its operands and the values that its bodies
/// capture.
fn reads(module: &Module, node: Node) -> Vec<Value> {
    let main = module.main();
    let mut found: BTreeSet<Value> = BTreeSet::new();
    let mut nodes = vec![node];
    while let Some(node) = nodes.pop() {
        let data = module.node(node);
        found.extend(data.operands().filter(|value| module.home(*value) == Some(main)));
        for (_, body) in data.bodies() {
            let graph = module.graph(body);
            nodes.extend(&graph.nodes);
            found.extend(graph.outputs.iter().copied().filter(|value| module.home(*value) == Some(main)));
        }
    }
    found.into_iter().collect()
}
