//! Plans of random modules: verified, never worse than the file's own order, and no better than brute force says is possible.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod case;
mod oracle;

use case::Case;
use memc_ir::{Module, Node, Rewriter, Stage, Value, text};
use memc_ops::{Inference, Profile};
use memc_passes::{Io, Options, Settings, Silent};
use memc_plan::FILE_ORDER;
use proptest::prelude::*;

/// Writes one random module as text, so that a failure prints what can become a file test.
struct Writer {
    numbers: Vec<u64>,
    next: usize,
    lines: Vec<String>,
    /// Values with their shapes.
    values: Vec<(String, Vec<u64>)>,
    nodes: usize,
}

impl Writer {
    fn below(&mut self, limit: usize) -> usize {
        let number = self.numbers.get(self.next).copied().unwrap_or(0);
        self.next += 1;
        (number % limit as u64) as usize
    }

    fn pick(&mut self) -> (String, Vec<u64>) {
        // Late values more often: graphs become deep.
        let at = self.values.len() - 1 - self.below(self.values.len().min(5));
        self.values[at].clone()
    }

    fn push(&mut self, right: &str, shape: Vec<u64>) {
        let name = format!("v{}", self.nodes);
        self.lines.push(format!("%{name} = {right} : {}", show(&shape)));
        self.values.push((name, shape));
        self.nodes += 1;
    }

    fn constant(&mut self, numbers: &[u64]) -> String {
        let name = format!("k{}", self.lines.len());
        self.lines.insert(0, format!("const %{name} : i64[{}] = {numbers:?}", numbers.len()));
        name
    }

    fn node(&mut self) {
        let (x, shape) = self.pick();
        let count: u64 = shape.iter().product();
        match self.below(9) {
            0 => {
                let operator = ["Relu", "Exp", "Tanh"][self.below(3)];
                self.push(&format!("{operator}(%{x})"), shape);
            }
            1 => self.push(&format!("Softmax(%{x}) {{axis = 0}}"), shape),
            2 => {
                let with =
                    self.values.iter().rev().find(|(name, other)| *other == shape && *name != x).map(|(name, _)| name.clone());
                let with = with.unwrap_or_else(|| x.clone());
                self.push(&format!("Mul(%{x}, %{with})"), shape);
            }
            3 => {
                let to = self.constant(&[count]);
                self.push(&format!("Reshape(%{x}, %{to}) {{allowzero = 1}}"), vec![count]);
            }
            4 => {
                let to = self.constant(&[2, count]);
                let (x, shape) = if shape.len() == 1 { (x, shape) } else { self.flat(&x, count) };
                self.push(&format!("Expand(%{x}, %{to})"), vec![2, shape[0]]);
            }
            5 if shape.len() == 2 => {
                let axis = self.constant(&[0]);
                self.push(&format!("ReduceMax(%{x}, %{axis}) {{keepdims = 0}}"), vec![shape[1]]);
            }
            6 => {
                let (y, other) = self.pick();
                if shape.len() == 1 && other.len() == 1 {
                    self.push(&format!("Concat(%{x}, %{y}) {{axis = 0}}"), vec![shape[0] + other[0]]);
                } else {
                    self.push(&format!("Identity(%{x})"), shape);
                }
            }
            7 => {
                let (y, _) = self.pick();
                let body = |operator: &str, of: &str| {
                    format!("{{\n  %inner = {operator}(%{of}) : unknown\n  %sum = Mul(%inner, %{x}) : unknown\n  return %sum\n}}")
                };
                // Both branches give the shape of %x: %y is captured where it has that shape too.
                let y = if self.values.iter().any(|(name, other)| *name == y && *other == shape) { y } else { x.clone() };
                let (then, other) = (body("Exp", &y), body("Neg", &x));
                let right = format!("If(%flag) {{then_branch = graph @then {then}, else_branch = graph @else {other}}}");
                self.push(&right, shape);
            }
            _ => self.push(&format!("Sqrt(%{x})"), shape),
        }
    }

    fn flat(&mut self, x: &str, count: u64) -> (String, Vec<u64>) {
        let to = self.constant(&[count]);
        self.push(&format!("Reshape(%{x}, %{to}) {{allowzero = 1}}"), vec![count]);
        self.values.last().unwrap().clone()
    }
}

fn show(shape: &[u64]) -> String {
    let extents: Vec<String> = shape.iter().map(u64::to_string).collect();
    format!("f32[{}]", extents.join(","))
}

/// A module with at least `nodes` nodes.
fn module_text(numbers: Vec<u64>, nodes: usize) -> String {
    let mut writer = Writer { numbers, next: 0, lines: Vec::new(), values: Vec::new(), nodes: 0 };
    let sizes = [16, 48, 5, 0, 64];
    let extent = sizes[writer.below(sizes.len())];
    writer.values = vec![("x".to_owned(), vec![extent]), ("z".to_owned(), vec![32])];
    while writer.nodes < nodes {
        writer.node();
    }
    let mut outputs: Vec<String> = Vec::new();
    for _ in 0..=writer.below(3) {
        let (name, _) = writer.pick();
        if name.starts_with('v') && !outputs.contains(&name) {
            outputs.push(name);
        }
    }
    let outputs: Vec<String> = outputs.iter().map(|name| format!("%{name}")).collect();
    format!(
        "opset \"\" 21\ngraph @random {{\ninput %flag : bool[]\ninput %x : f32[{extent}]\ninput %z : f32[32]\n{}\nreturn {}\n}}\n",
        writer.lines.join("\n"),
        outputs.join(", ")
    )
}

fn case(text: &str, profile: &'static Profile, io: Io) -> Case {
    let options = Options { io, effort: 2_000, ..Options::for_profile(profile) };
    let name = format!("under {} with io {}:\n{text}", profile.name, io.name());
    let (pipeline, settings, expected) = (String::new(), Settings::default(), String::new());
    Case { name, pipeline, options, settings, input: text.to_owned(), expected }
}

fn each_case(text: &str) -> Vec<Case> {
    let all = [Io::Outputs, Io::Arena, Io::External];
    Profile::ALL.into_iter().flat_map(|profile| all.map(|io| case(text, profile, io))).collect()
}

/// Runs a pipeline on a module; gives what the scheduler said: the peak that it promises, and the bound.
fn run(case: &Case, module: &mut Module, inference: &Inference, pipeline: &str) -> Option<(u64, u64)> {
    let mut ctx = case.context(inference);
    let passes = case.pipeline(pipeline, module.stage);
    passes.run(module, &mut ctx, true, &mut Silent).unwrap_or_else(|error| panic!("{error}, {}", case.name));
    ctx.said.reports.iter().find(|report| report.pass == "schedule").map(|report| (report.value, report.lower_bound))
}

/// Bytes of the inputs in the arena that no node reads.
fn unread_inputs(module: &Module, io: Io) -> u64 {
    let main = module.graph(module.main());
    let is_read = |value: &Value| main.nodes.iter().any(|node| module.reads(*node).contains(value));
    let unread = main.inputs.iter().filter(|value| io == Io::Arena && !is_read(value));
    unread.map(|value| module.ty(*value).size().unwrap().0).sum()
}

/// Every order of a graph's nodes that the data flow allows.
fn all_orders(module: &Module) -> Vec<Vec<Node>> {
    fn extend(module: &Module, left: &[Node], order: &mut Vec<Node>, all: &mut Vec<Vec<Node>>) {
        if left.is_empty() {
            all.push(order.clone());
        }
        for node in left {
            let waits =
                module.reads(*node).into_iter().any(|value| module.producer(value).is_some_and(|maker| left.contains(&maker)));
            if !waits {
                order.push(*node);
                let rest: Vec<Node> = left.iter().copied().filter(|other| other != node).collect();
                extend(module, &rest, order, all);
                order.pop();
            }
        }
    }
    let mut all = Vec::new();
    extend(module, &module.graph(module.main()).nodes, &mut Vec::new(), &mut all);
    all
}

/// The lowest peak of all orders, with views before and in-place writes after the order is chosen.
fn best_by_brute_force(case: &Case, prepared: &Module, inference: &Inference) -> u64 {
    let peak = |order: Vec<Node>| {
        let mut module = prepared.clone();
        let main = module.main();
        let mut rewriter = Rewriter::new(&mut module);
        rewriter.set_schedule(main, order);
        rewriter.finish();
        module.stage = Stage::Scheduled;
        run(case, &mut module, inference, "in-place,place");
        oracle::peak(&module, &case.options)
    };
    all_orders(prepared).into_iter().map(peak).min().unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plans_are_sound_and_never_worse_than_the_file(numbers in prop::collection::vec(any::<u64>(), 10..120), nodes in 1usize..24) {
        let text = module_text(numbers, nodes);
        for case in each_case(&text) {
            let (module, inference) = case.module();
            let mut base = module.clone();
            run(&case, &mut base, &inference, FILE_ORDER);
            let planned = case.plan();
            let planned = planned.unwrap_or_else(|error| panic!("{error}, {}", case.name)).planned.module;
            case.verify(&planned);
            for plan in [&base, &planned] {
                prop_assert_eq!(oracle::misplaced(plan, &case.options), Vec::<String>::new(), "{}\n{}", case.name, text::print(plan));
            }
            let options = &case.options;
            let (peak, arena) = (oracle::peak(&planned, options), oracle::arena(&planned));
            prop_assert!(peak <= oracle::peak(&base, options), "{}\n{}", case.name, text::print(&planned));
            prop_assert!(arena <= oracle::arena(&base), "{}\n{}", case.name, text::print(&planned));
            prop_assert!(oracle::working_set(&planned, options) <= peak && peak <= arena, "{}\n{}", case.name, text::print(&planned));
            let printed = text::print(&planned);
            prop_assert_eq!(text::print(&text::parse(&printed).unwrap()), printed);
        }
    }

    #[test]
    fn orders_of_small_graphs_keep_to_brute_force(numbers in prop::collection::vec(any::<u64>(), 10..60), nodes in 1usize..8) {
        let text = module_text(numbers, nodes);
        for case in each_case(&text) {
            let (mut prepared, inference) = case.module();
            run(&case, &mut prepared, &inference, "fold,dce,view");
            let count = prepared.graph(prepared.main()).nodes.len();
            if count > 7 {
                continue;
            }
            let mut ours = prepared.clone();
            let (promised, bound) = run(&case, &mut ours, &inference, "schedule,in-place,place").unwrap();
            let (peak, best) = (oracle::peak(&ours, &case.options), best_by_brute_force(&case, &prepared, &inference));
            let shown = text::print(&ours);
            prop_assert!(bound <= best, "the bound {bound} is above the best peak {best} {}\n{shown}", case.name);
            prop_assert!(best <= peak, "brute force missed an order: {best} > {peak} {}\n{shown}", case.name);
            // An input that nobody reads is live at the first step, whichever that is; no order knows of it.
            let unread = unread_inputs(&ours, case.options.io);
            prop_assert!(peak <= promised + unread, "the scheduler promised {promised}, the plan has {peak} {}\n{shown}", case.name);
            prop_assert!(bound < promised || peak <= best + unread, "proven, but {best} < {peak} {}\n{shown}", case.name);
        }
    }
}
