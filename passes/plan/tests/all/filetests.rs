//! Runs every `.mem` file below `filetests` and every example of the pass pages, and checks properties
//! that hold for each.
//!
//! A file is `// RUN: PASSES [OPTIONS]`, remarks, a module, `// ----`, and the exact expected output.
//! With `MEMC_BLESS=1` the test rewrites the part below the separator; read the new text before you
//! commit it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::case;
use crate::oracle;

use std::fs;
use std::path::{Path, PathBuf};

use case::Case;
use memc_ir::{Module, Stage, text};
use memc_passes::{Changed, Observer, PassInfo, Settings};
use memc_plan::FILE_ORDER;
use memc_plan::registry::REGISTRY;

/// The file order on the requested kernels and codes: the upper bound includes their workspace and decoded
/// weights.
const FILE_ORDER_ON_KERNELS: &str =
    "fold,canonicalize,dce,encode-weights,dce,micro-batch,nchwc,dce,view,in-place,place";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// Returns the folders of passes: passes that follow their settings, and the planner's passes.
fn rooms() -> [PathBuf; 2] {
    [root().join(".."), root()]
}

/// Returns the page of a pass.
fn page_of(pass: &str) -> PathBuf {
    let pages = rooms().map(|room| room.join(format!("doc/{pass}.md")));
    pages.into_iter().find(|page| page.exists()).unwrap_or_else(|| panic!("{pass} has no page"))
}

/// Pages of the planner that belong to no pass.
const OTHER_PAGES: &[&str] = &["encode", "planning"];

/// Returns the files of a folder and its subfolders, sorted.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found.into_iter().flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn blesses() -> bool {
    std::env::var_os("MEMC_BLESS").is_some_and(|value| value == "1")
}

/// Checks that a pass reports a change if and only if the module's text changes.
#[derive(Default)]
struct Honest {
    before: String,
    lies: Vec<String>,
}

impl Observer for Honest {
    fn before(&mut self, _pass: &'static PassInfo, module: &Module) {
        self.before = text::print(module);
    }
    fn after(&mut self, pass: &'static PassInfo, module: &Module, changed: Changed) {
        let same = text::print(module) == self.before;
        if same != (changed == Changed::No) {
            self.lies.push(format!(
                "`{}` says {changed:?}, and the text is {}",
                pass.name,
                if same { "the same" } else { "another" }
            ));
        }
    }
}

/// Runs a case and returns the module; checks properties that hold for every run.
fn run(case: &Case, pipeline: &str) -> Module {
    let (mut module, inference) = case.module();
    let mut ctx = case.context(&inference);
    let mut honest = Honest::default();
    let passes = case.pipeline(pipeline, module.stage);
    let edits = passes
        .run(&mut module, &mut ctx, true, &mut honest)
        .unwrap_or_else(|error| panic!("{}: {error}", case.name));
    drop(ctx);
    assert!(honest.lies.is_empty(), "{}: {:?}", case.name, honest.lies);
    let (untouched, _) = case.module();
    let scheduled = module.stage > untouched.stage;
    assert_eq!(
        edits == Changed::No && !scheduled,
        text::print(&module) == text::print(&untouched),
        "{}",
        case.name
    );
    case.verify(&module);
    let printed = text::print(&module);
    let again =
        text::parse(&printed).unwrap_or_else(|errors| panic!("{}: {}\n{printed}", case.name, errors[0]));
    assert_eq!(text::print(&again), printed, "{}: the text does not come back", case.name);
    if module.stage == Stage::Planned {
        sound(case, &module);
    }
    module
}

/// Checks properties that hold for every plan.
fn sound(case: &Case, module: &Module) {
    let options = &case.options;
    let wrong = oracle::misplaced(module, options);
    assert!(wrong.is_empty(), "{}: {wrong:?}\n{}", case.name, text::print(module));
    let (arena, peak, least) =
        (oracle::arena(module), oracle::peak(module, options), oracle::working_set(module, options));
    assert!(arena >= peak && peak >= least, "{}: arena {arena}, peak {peak}, working set {least}", case.name);
    for space in &module.plan.arenas {
        let peak = oracle::peak_in(module, options, &module.plan.spaces[space.space].name);
        assert!(
            space.lower_bound.0 >= peak && space.lower_bound <= space.size,
            "{}: {space:?}, peak {peak}",
            case.name
        );
        assert!(
            space.order_lower_bound.is_none_or(|bound| bound.0 <= peak),
            "{}: {space:?}, peak {peak}",
            case.name
        );
    }
}

/// Returns the output of a case: the module, and the cost of its plan if it has one.
fn output(case: &Case, module: &Module) -> String {
    let mut printed = text::print(module);
    for arena in &module.plan.arenas {
        let name = &module.plan.spaces[arena.space].name;
        let (peak, size, bound) =
            (oracle::peak_in(module, &case.options, name), arena.size.0, arena.lower_bound.0);
        printed.push_str(&format!("// memory @{name}: peak {peak}, arena {size}, bound {bound}\n"));
    }
    printed
}

/// Checks that the default plan of the input is never worse than the file order.
fn never_worse(case: &Case) {
    let (module, _) = case.module();
    if module.stage > Stage::Typed {
        return;
    }
    let is_asked = case.options.rewrite.names_kernels() || case.options.encode.weights.is_some();
    let base = run(case, if is_asked { FILE_ORDER_ON_KERNELS } else { FILE_ORDER });
    let free = Case { settings: Settings { limit: None, ..case.settings.clone() }, ..case.clone() };
    let planned = free.plan().unwrap_or_else(|error| panic!("{}: {error}", case.name)).planned;
    case.verify(&planned.module);
    sound(case, &planned.module);
    let options = &case.options;
    assert!(
        oracle::peak(&planned.module, options) <= oracle::peak(&base, options),
        "{}: a higher peak",
        case.name
    );
    assert!(oracle::arena(&planned.module) <= oracle::arena(&base), "{}: a larger arena", case.name);
}

/// Runs one case; returns `None` if the output is as expected, else the output.
fn check(case: &Case) -> Option<String> {
    let module = run(case, &case.pipeline);
    let mut printed = output(case, &module);
    assert_eq!(printed, output(case, &run(case, &case.pipeline)), "{}: two runs differ", case.name);
    never_worse(case);
    // Pages show graphs without the header.
    if !case.expected.is_empty() && !case.expected.starts_with("mem ") {
        printed = printed[printed.find("graph @").unwrap()..].to_owned();
    }
    (printed != case.expected_output()).then_some(printed)
}

#[test]
fn every_file_prints_its_expectation() {
    let mut failures = Vec::new();
    for path in files(&root().join("tests/filetests")) {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        assert_eq!(path.extension().unwrap(), "mem", "{name}: only .mem files stand here");
        let whole = fs::read_to_string(&path).unwrap();
        let case = Case::read(&name, &whole);
        let told = case.input.lines().nth(1).is_some_and(|line| line.starts_with("// "));
        assert!(told, "{name}: the second line says what the case shows");
        let Some(printed) = check(&case) else { continue };
        if blesses() {
            fs::write(&path, case.blessed(&printed)).unwrap();
        } else {
            failures.push(format!("{name} prints\n{printed}"));
        }
    }
    assert!(failures.is_empty(), "{}\nMEMC_BLESS=1 writes them anew", failures.join("\n"));
}

#[test]
fn every_example_of_the_pages_prints_its_expectation() {
    for info in REGISTRY {
        let path = page_of(info.name);
        let page = fs::read_to_string(&path).unwrap();
        let mut parts: Vec<String> = page.split("```").map(str::to_owned).collect();
        let mut examples = 0;
        for part in &mut parts {
            let Some(block) = part.strip_prefix("mem\n").map(str::to_owned) else { continue };
            examples += 1;
            let case = Case::read(&format!("doc/{}.md", info.name), &block);
            if let Some(printed) = check(&case) {
                assert!(blesses(), "{} prints\n{printed}\nMEMC_BLESS=1 writes it anew", case.name);
                *part = format!("mem\n{}", case.blessed(&printed));
            }
        }
        assert!(examples > 0, "{}: the page shows no example", info.name);
        let written = parts.join("```");
        if written != page {
            fs::write(&path, written).unwrap();
        }
    }
}

#[test]
fn every_pass_has_a_page_and_five_files() {
    let names: Vec<&str> = REGISTRY.iter().map(|info| info.name).collect();
    assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
    for info in REGISTRY {
        let page = fs::read_to_string(page_of(info.name)).unwrap();
        let mut lines = page.lines().filter(|line| !line.is_empty());
        assert_eq!(lines.next(), Some(format!("# {}", info.name).as_str()));
        assert_eq!(
            lines.next(),
            Some(info.summary),
            "{}: the first sentence of the page is the summary",
            info.name
        );
        let folder = root().join("tests/filetests").join(info.name);
        assert!(folder.is_dir() && files(&folder).len() >= 5, "{}: fewer than five file tests", info.name);
        // A folder's files run the pass that it is named after.
        for path in files(&folder) {
            let case = Case::read(&path.display().to_string(), &fs::read_to_string(&path).unwrap());
            assert!(
                case.pipeline.split(',').any(|pass| pass.split('[').next() == Some(info.name)),
                "{}",
                case.name
            );
        }
    }
    let pages: Vec<PathBuf> = rooms().iter().flat_map(|room| files(&room.join("doc"))).collect();
    let is_known = |name: &str| names.contains(&name) || OTHER_PAGES.contains(&name);
    let strays: Vec<_> =
        pages.iter().filter(|page| !is_known(page.file_stem().unwrap().to_str().unwrap())).collect();
    assert!(strays.is_empty(), "pages of no pass: {strays:?}");
}
