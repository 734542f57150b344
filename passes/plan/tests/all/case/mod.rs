//! The form of a file test: a command, a module, a separator, and the exact expected output.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use memc_cost::Target;
use memc_ir::{Bytes, Diagnostic, Module, Nanos, Stage, text, verify};
use memc_ops::{Inference, Profile};
use memc_passes::{Io, Memo, Options, PassContext, Pipeline, Settings, StateNames, WeightCode};
use memc_plan::registry::REGISTRY;
use memc_plan::{Entry, Found, Model, Refusal, Tuning, Wish};

/// Line between the input and the expected output.
pub const SEPARATOR: &str = "// ----\n";

/// One test, read.
#[derive(Clone)]
pub struct Case {
    /// Path of the file, for messages.
    pub name: String,
    /// Passes, as `--passes` takes them.
    pub pipeline: String,
    pub options: Options,
    /// Settings of passes that the pipeline leaves open.
    pub settings: Settings,
    /// The lines above the separator.
    pub input: String,
    /// The lines below it.
    pub expected: String,
}

impl Case {
    /// Reads a test; panics with the test's name if its form is wrong.
    pub fn read(name: &str, whole: &str) -> Self {
        let (input, expected) = whole.split_once(SEPARATOR).unwrap_or((whole, ""));
        let command = input.lines().next().and_then(|line| line.strip_prefix("// RUN: "));
        let command =
            command.unwrap_or_else(|| panic!("{name}: the first line is `// RUN: PASSES [OPTIONS]`"));
        let mut words = command.split_whitespace();
        let pipeline = words.next().unwrap_or_else(|| panic!("{name}: no passes")).to_owned();
        let (options, settings) = options(name, &mut words);
        Self {
            name: name.to_owned(),
            pipeline,
            options,
            settings,
            input: input.to_owned(),
            expected: expected.to_owned(),
        }
    }

    /// Returns the whole text with `output` below the separator. Remarks after unchanged lines are kept.
    pub fn blessed(&self, output: &str) -> String {
        let mut old: Vec<&str> = self.expected.lines().collect();
        let mut lines = Vec::new();
        for line in output.lines() {
            match old.iter().position(|old| without_remark(old) == line) {
                Some(at) => lines.push(old.drain(..=at).next_back().unwrap().to_owned()),
                None => lines.push(line.to_owned()),
            }
        }
        format!("{}{SEPARATOR}{}\n", self.input, lines.join("\n"))
    }

    /// Returns the lines below the separator, without trailing remarks.
    pub fn expected_output(&self) -> String {
        self.expected.lines().map(|line| format!("{}\n", without_remark(line))).collect()
    }

    /// Returns the module of the input, with types.
    pub fn module(&self) -> (Module, Inference) {
        let parsed = text::parse(&self.input);
        let mut module = parsed.unwrap_or_else(|errors| panic!("{}: {}", self.name, show(&errors)));
        let inference = memc_ops::infer(&mut module);
        assert!(inference.diagnostics.is_empty(), "{}: {}", self.name, show(&inference.diagnostics));
        module.stage = module.stage.max(Stage::Typed);
        self.verify(&module);
        (module, inference)
    }

    /// Returns a context for passes over the module.
    pub fn context(&self, inference: &Inference) -> PassContext<'_> {
        PassContext::new(&self.options, inference.data.clone())
    }

    /// Parses a pipeline; its passes take the settings of the case unless the text names others.
    pub fn pipeline(&self, text: &str, stage: Stage) -> Pipeline {
        let pipeline =
            Pipeline::parse(text, stage, REGISTRY).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        pipeline.with(&self.settings)
    }

    /// Plans the module within the limit of the case.
    pub fn plan(&self) -> Result<Found, Refusal> {
        self.plan_with(&Tuning::default())
    }

    /// Plans the module with other tuning.
    pub fn plan_with(&self, tuning: &Tuning) -> Result<Found, Refusal> {
        self.plan_and_tell(tuning, &mut |_| {})
    }

    /// Plans the module with other tuning; `tell` receives the log.
    pub fn plan_and_tell(&self, tuning: &Tuning, tell: &mut dyn FnMut(&Entry)) -> Result<Found, Refusal> {
        let (module, inference) = self.module();
        let mut options = self.options.clone();
        options.rewrite.micro_batches = self.settings.parts;
        let model = Model {
            module: &module,
            data: &inference.data,
            external: None,
            options: &options,
            transforms: &[],
            verify: true,
            memo: Memo::default(),
        };
        memc_plan::plan(
            &model,
            Wish { limit: self.settings.limit, slowdown: options.rewrite.slowdown },
            tuning,
            tell,
        )
    }

    /// Checks that the verifier accepts the module at its stage.
    pub fn verify(&self, module: &Module) {
        if let Err(violations) = verify(module, module.stage) {
            panic!("{}: {}\n{}", self.name, show(&violations), text::print(module));
        }
    }
}

/// Returns a line up to two blanks and a comment, as in
/// `%a = Relu(%x) : f32[16] @device+0x40  // 0x40 = 16 * 4`.
fn without_remark(line: &str) -> &str {
    line.split_once("  // ").map_or(line, |(line, _)| line).trim_end()
}

fn show(diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(|diagnostic| format!("{diagnostic}\n")).collect()
}

fn options<'a>(name: &str, words: &mut impl Iterator<Item = &'a str>) -> (Options, Settings) {
    let mut settings = Settings::default();
    let pairs: Vec<(&str, &str)> =
        std::iter::from_fn(|| Some((words.next()?, words.next().unwrap_or_default()))).collect();
    let runtime = pairs.iter().find(|(option, _)| *option == "--runtime").map_or("arena", |(_, value)| value);
    let mut options = Options::for_profile(
        Profile::named(runtime).unwrap_or_else(|| panic!("{name}: no runtime {runtime}")),
    );
    for (option, value) in pairs {
        match option {
            "--runtime" => {}
            "--io" => {
                let all = [Io::Outputs, Io::Arena, Io::External];
                options.io = all
                    .into_iter()
                    .find(|io| io.name() == value)
                    .unwrap_or_else(|| panic!("{name}: --io {value}"));
            }
            "--exact" => options.rewrite.exact = value == "on",
            "--std-ops" => options.rewrite.standard = value == "on",
            "--integer-kernels" => options.rewrite.integer_kernels = value == "on",
            "--encode-weights" => {
                let codes = [WeightCode::Int8, WeightCode::Int4];
                options.encode.weights = codes.into_iter().find(|code| code.name() == value);
                options.tuning.encode.least_weights = Bytes(0);
            }
            "--engines" => options.engines = value.parse().unwrap(),
            "--nchwc" => options.rewrite.nchwc = Some(value.parse().unwrap()),
            "--micro-batches" => settings.parts = Some(value.parse().unwrap()),
            "--max-fold-bytes" => options.max_fold_bytes = Bytes(value.parse().unwrap()),
            "--link" => {
                let (space, rate) = value.split_once('=').unwrap();
                let mut target = Target::default();
                target.connect(space, rate.parse().unwrap(), Nanos(0.0));
                options = Options::on(options.profile, target);
            }
            "--weights" => options.weights = Some(value.to_owned()),
            "--state" => {
                let (new, old) = value.split_once('=').unwrap();
                options.state.push(StateNames { new: new.to_owned(), old: old.to_owned() });
            }
            "--grows" => {
                let (symbol, extent) = value.split_once('=').unwrap();
                options.growing.insert(symbol.to_owned(), memc_ir::DimExpr::parse(extent).unwrap());
            }
            // A second space that nodes access directly: NAME=RATE or NAME=RATE,CAPACITY.
            "--bank" => {
                let (space, rest) = value.split_once('=').unwrap();
                let (rate, capacity) =
                    rest.split_once(',').map_or((rest, None), |(rate, most)| (rate, Some(most)));
                let mut target = options.cost.target.clone();
                target.spaces.push(memc_cost::Space {
                    name: space.to_owned(),
                    capacity: capacity.map(|bytes| Bytes(bytes.parse().unwrap())),
                    alignment: None,
                    constants: false,
                    access: Some(rate.parse().unwrap()),
                });
                options = Options { io: options.io, ..Options::on(options.profile, target) };
            }
            "--budget" => settings.limit = Some(Bytes(value.parse().unwrap())),
            "--effort" => options.effort = value.parse().unwrap(),
            other => panic!("{name}: unknown option {other}"),
        }
    }
    (options, settings)
}
