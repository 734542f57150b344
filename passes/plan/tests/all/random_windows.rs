//! Sub-views of random modules, played: every node finds its operands' elements at the places that the
//! plan states.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::case;
use crate::oracle;

use std::collections::{BTreeMap, BTreeSet};

use case::Case;
use memc_ir::{AliasKind, EntityId as _, Module, Node, Payload, Value, text};
use memc_ops::{Profile, View, lookup};
use memc_passes::window::candidates;
use memc_passes::{Io, Options, PassContext, Settings, Silent};
use proptest::prelude::*;

/// Content of one element of the arena: the value that made it, and the index in that value. Reshapes
/// and copies keep it.
type Element = (u32, u64);

const GARBAGE: Element = (u32::MAX, 0);

/// An arena of elements of four bytes, and the expected contents of every value.
struct Player<'m> {
    module: &'m Module,
    arena: Vec<Element>,
    contents: BTreeMap<Value, Vec<Element>>,
}

impl Player<'_> {
    fn count(&self, value: Value) -> u64 {
        self.module.ty(value).tensor().unwrap().elements().unwrap()
    }

    /// Returns the positions of a value in the arena, if it has a place there.
    fn room(&self, value: Value) -> Option<std::ops::Range<usize>> {
        let storage = self.module.plan.storage[value]?;
        let first = (storage.offset.0 / 4) as usize;
        Some(first..first + self.count(value) as usize)
    }

    /// Returns the names of the values whose elements in the arena have changed.
    fn broken(&self, values: impl IntoIterator<Item = Value>) -> Vec<String> {
        let values = values.into_iter().filter(|value| {
            // Constants need not have elements of four bytes, and are never in the arena.
            self.room(*value).is_some_and(|room| self.arena[room] != self.contents[value][..])
        });
        values.map(|value| self.module.value(value).name.clone()).collect()
    }

    fn fresh(&self, value: Value) -> Vec<Element> {
        (0..self.count(value)).map(|index| (value.index() as u32, index)).collect()
    }

    fn step(&mut self, node: Node) -> Result<(), String> {
        let data = self.module.node(node);
        let name = data.results().map(|value| self.module.value(value).name.clone()).collect::<String>();
        let operands: Vec<Value> = data.operands().collect();
        let broken = self.broken(operands.clone());
        if !broken.is_empty() {
            return Err(format!("{name} finds {broken:?} overwritten"));
        }
        let results: Vec<Value> = data.results().collect();
        let meaning = self.meaning(node);
        let moves = meaning.is_some();
        let meaning = meaning.unwrap_or_else(|| results.iter().map(|value| self.fresh(*value)).collect());
        // A kernel may write its results in any order and several times, and may write its workspace.
        if !moves {
            let rooms: Vec<_> = results.iter().filter_map(|value| self.room(*value)).collect();
            for room in rooms {
                self.arena[room].fill(GARBAGE);
            }
            for scratch in self.module.plan.scratch.iter().filter(|scratch| scratch.node == node) {
                let first = (scratch.storage.unwrap().offset.0 / 4) as usize;
                self.arena[first..first + (scratch.bytes.0 / 4) as usize].fill(GARBAGE);
            }
        }
        // All operands but one that is overwritten in place must stay intact.
        let in_place = |value: &Value| {
            !moves
                && results.first().is_some_and(|result| {
                    let alias =
                        self.module.plan.alias[*result].filter(|alias| alias.kind == AliasKind::InPlace);
                    alias.is_some() && self.room(*value) == self.room(*result)
                })
        };
        let kept: Vec<Value> = operands.iter().copied().filter(|value| !in_place(value)).collect();
        let broken = self.broken(kept.clone());
        if !broken.is_empty() {
            return Err(format!("{name} writes over {broken:?} while it reads them"));
        }
        for (value, content) in results.into_iter().zip(meaning) {
            if let Some(room) = self.room(value) {
                self.arena[room].copy_from_slice(&content);
            }
            self.contents.insert(value, content);
        }
        let broken = self.broken(kept);
        if moves && !broken.is_empty() {
            return Err(format!("{name} copies over {broken:?}"));
        }
        Ok(())
    }

    /// Returns the results of a node that only moves elements, element by element; `None` for other
    /// nodes.
    fn meaning(&self, node: Node) -> Option<Vec<Vec<Element>>> {
        let data = self.module.node(node);
        let dims = |value: Value| self.module.ty(value).tensor().unwrap().known_dims().unwrap();
        let operand = |at: usize| data.inputs[at].unwrap();
        let rows = |value: Value, axis: usize| dims(value)[..axis].iter().product::<u64>() as usize;
        let axis = data.int("axis", 0) as usize;
        match lookup(&data.operator)?.view {
            View::Reshape => Some(vec![self.contents[&operand(0)].clone()]),
            View::Concat => {
                let result = data.outputs[0].unwrap();
                let mut whole = Vec::new();
                for row in 0..rows(result, axis) {
                    for part in data.operands() {
                        let width = self.contents[&part].len() / rows(part, axis).max(1);
                        whole.extend_from_slice(&self.contents[&part][row * width..(row + 1) * width]);
                    }
                }
                Some(vec![whole])
            }
            View::Split => {
                let mut parts = vec![Vec::new(); data.outputs.len()];
                let mut at = 0;
                for _ in 0..rows(operand(0), axis) {
                    for (part, value) in parts.iter_mut().zip(data.results()) {
                        let width = (self.count(value) as usize) / rows(value, axis).max(1);
                        part.extend_from_slice(&self.contents[&operand(0)][at..at + width]);
                        at += width;
                    }
                }
                Some(parts)
            }
            // Slices of these modules cut one axis, with step 1.
            View::Slice => {
                let number = |at: usize| {
                    let constant = self.module.constant(self.module.constant_of(operand(at)).unwrap());
                    let Payload::Raw(bytes) = &constant.payload else { panic!("a constant without bytes") };
                    i64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize
                };
                let (first, axis) = (number(1), if data.inputs.len() > 3 { number(3) } else { 0 });
                let (whole, taken) = (dims(operand(0)), dims(data.outputs[0].unwrap())[axis] as usize);
                let (extent, inner) =
                    (whole[axis] as usize, whole[axis + 1..].iter().product::<u64>() as usize);
                let mut part = Vec::new();
                for row in 0..rows(operand(0), axis) {
                    let begin = (row * extent + first) * inner;
                    part.extend_from_slice(&self.contents[&operand(0)][begin..begin + taken * inner]);
                }
                Some(vec![part])
            }
            View::SameType | View::None => None,
        }
    }
}

/// Plays a planned module; returns a description of the first error.
fn play(module: &Module) -> Result<(), String> {
    let main = module.graph(module.main());
    let arena = vec![GARBAGE; (oracle::arena(module) / 4) as usize];
    let mut player = Player { module, arena, contents: BTreeMap::new() };
    for value in main.inputs.iter().chain(&main.constants) {
        let content = player.fresh(*value);
        if let Some(room) = player.room(*value) {
            player.arena[room].copy_from_slice(&content);
        }
        player.contents.insert(*value, content);
    }
    for node in &main.nodes {
        player.step(*node)?;
    }
    let broken = player.broken(main.outputs.iter().copied());
    if broken.is_empty() { Ok(()) } else { Err(format!("the results {broken:?} are overwritten")) }
}

/// Writes one random module as text.
struct Writer {
    numbers: Vec<u64>,
    next: usize,
    constants: Vec<String>,
    lines: Vec<String>,
    values: Vec<(String, Vec<u64>)>,
}

impl Writer {
    fn below(&mut self, limit: usize) -> usize {
        let number = self.numbers.get(self.next).copied().unwrap_or(0);
        self.next += 1;
        (number % limit.max(1) as u64) as usize
    }

    fn pick(&mut self) -> (String, Vec<u64>) {
        let at = self.values.len() - 1 - self.below(self.values.len().min(6));
        self.values[at].clone()
    }

    fn constant(&mut self, name: &str, numbers: &[u64]) -> String {
        let name = format!("{name}_{}", self.constants.len());
        self.constants.push(format!("const %{name} : i64[{}] = {numbers:?}", numbers.len()));
        name
    }

    fn push(&mut self, right: &str, shapes: &[Vec<u64>]) {
        let names: Vec<String> = (0..shapes.len()).map(|at| format!("v{}", self.values.len() + at)).collect();
        let left: Vec<String> = names.iter().map(|name| format!("%{name}")).collect();
        let types: Vec<String> = shapes.iter().map(|shape| show(shape)).collect();
        let types = if types.len() == 1 { types[0].clone() } else { format!("({})", types.join(", ")) };
        self.lines.push(format!("{} = {right} : {types}", left.join(", ")));
        self.values.extend(names.into_iter().zip(shapes.iter().cloned()));
    }

    fn node(&mut self) {
        let (x, shape) = self.pick();
        match self.below(10) {
            0..3 => {
                let operator = ["Relu", "Exp", "Neg"][self.below(3)];
                self.push(&format!("{operator}(%{x})"), &[shape]);
            }
            3 => {
                let others: Vec<String> = self
                    .values
                    .iter()
                    .filter(|(_, other)| *other == shape)
                    .map(|(name, _)| name.clone())
                    .collect();
                let y = others[self.below(others.len())].clone();
                self.push(&format!("Mul(%{x}, %{y})"), &[shape]);
            }
            4..7 => self.concat(&x, &shape),
            7 if shape.len() == 1 && shape[0] > 0 => {
                let first = self.below(shape[0] as usize) as u64;
                let count = 1 + self.below((shape[0] - first) as usize) as u64;
                let start = self.constant("first", &[first]);
                let end = self.constant("to", &[first + count]);
                self.push(&format!("Slice(%{x}, %{start}, %{end})"), &[vec![count]]);
            }
            8 => {
                let axis = self.below(shape.len());
                let left = self.below(shape[axis] as usize + 1) as u64;
                let sizes = self.constant("sizes", &[left, shape[axis] - left]);
                let (mut low, mut high) = (shape.clone(), shape.clone());
                (low[axis], high[axis]) = (left, shape[axis] - left);
                self.push(&format!("Split(%{x}, %{sizes}) {{axis = {axis}}}"), &[low, high]);
            }
            _ => {
                let count: u64 = shape.iter().product();
                let other = if shape.len() == 1 { vec![1, count] } else { vec![count] };
                let to = self.constant("shape", &other);
                self.push(&format!("Reshape(%{x}, %{to}) {{allowzero = 1}}"), &[other]);
            }
        }
    }

    fn concat(&mut self, x: &str, shape: &[u64]) {
        let axis = self.below(shape.len());
        let (mut whole, mut parts) = (shape.to_vec(), vec![format!("%{x}")]);
        for _ in 0..=self.below(2) {
            let (y, other) = self.pick();
            let fits =
                other.len() == shape.len() && (0..shape.len()).all(|at| at == axis || other[at] == shape[at]);
            if fits && whole[axis] + other[axis] < 64 {
                whole[axis] += other[axis];
                let at = self.below(parts.len() + 1);
                parts.insert(at, format!("%{y}"));
            }
        }
        self.push(&format!("Concat({}) {{axis = {axis}}}", parts.join(", ")), &[whole]);
    }
}

fn show(shape: &[u64]) -> String {
    let extents: Vec<String> = shape.iter().map(u64::to_string).collect();
    format!("f32[{}]", extents.join(","))
}

fn module_text(numbers: Vec<u64>, nodes: usize) -> String {
    let values = vec![("x".to_owned(), vec![16]), ("y".to_owned(), vec![2, 4]), ("z".to_owned(), vec![1, 8])];
    let mut writer = Writer { numbers, next: 0, constants: Vec::new(), lines: Vec::new(), values };
    for _ in 0..nodes {
        writer.node();
    }
    let mut outputs = BTreeSet::from([writer.values.len() - 1]);
    for _ in 0..writer.below(3) {
        let at = writer.below(writer.values.len() - 3);
        outputs.insert(at + 3);
    }
    let outputs: Vec<String> = outputs.iter().map(|at| format!("%{}", writer.values[*at].0)).collect();
    let (constants, lines) = (writer.constants.join("\n"), writer.lines.join("\n"));
    let inputs = "input %x : f32[16]\ninput %y : f32[2,4]\ninput %z : f32[1,8]";
    format!(
        "opset \"\" 21\ngraph @random {{\n{inputs}\n{constants}\n{lines}\nreturn {}\n}}\n",
        outputs.join(", ")
    )
}

/// Plans with a choice of sub-views.
fn plan(case: &Case, choice: impl Fn(&Module, &PassContext<'_>) -> Option<BTreeSet<usize>>) -> Module {
    let (mut module, inference) = case.module();
    let mut ctx = case.context(&inference);
    let before = case.pipeline("fold,dce,view", module.stage);
    before
        .run(&mut module, &mut ctx, true, &mut Silent)
        .unwrap_or_else(|error| panic!("{error}, {}", case.name));
    let windows = choice(&module, &ctx);
    let pipeline = case
        .pipeline("window,schedule,in-place,place", module.stage)
        .with(&Settings { windows, ..Settings::default() });
    let done = pipeline.run(&mut module, &mut ctx, true, &mut Silent);
    done.unwrap_or_else(|error| panic!("{error}, {}", case.name));
    module
}

proptest! {
    #![proptest_config(crate::few(96))]

    #[test]
    fn reads_find_the_bytes_of_their_operands(
        numbers in prop::collection::vec(any::<u64>(), 10..160),
        nodes in 1usize..24,
        some in any::<u64>(),
    ) {
        let input = module_text(numbers, nodes);
        for io in [Io::Outputs, Io::Arena, Io::External] {
            let options = Options { io, effort: 500, ..Options::for_profile(&Profile::ARENA) };
            let name = format!("io {}:\n{input}", io.name());
            let (pipeline, settings, expected) = (String::new(), Settings::default(), String::new());
            let case = Case { name, pipeline, options, settings, input: input.clone(), expected };
            let chosen = case.plan();
            let plans = [
                plan(&case, |_, _| None),
                plan(&case, |module, ctx| {
                    let all = candidates(module, ctx);
                    let some = all.iter().enumerate().filter(|(at, _)| some >> (at % 64) & 1 == 1);
                    Some(some.map(|(at, _)| at).collect())
                }),
                chosen.unwrap_or_else(|error| panic!("{error}, {}", case.name)).planned.module,
            ];
            for planned in &plans {
                case.verify(planned);
                prop_assert_eq!(oracle::misplaced(planned, &case.options), Vec::<String>::new(), "{}\n{}", case.name, text::print(planned));
                prop_assert_eq!(play(planned), Ok(()), "{}\n{}", case.name, text::print(planned));
            }
        }
    }
}
