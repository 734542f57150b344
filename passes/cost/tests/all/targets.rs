//! Target files: built-in files can be read, and wrong files are refused with a message.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use memc_cost::target::{self, BUILT_IN};
use memc_cost::{Target, TargetError, Traffic};
use memc_ir::{Bytes, ElementType, Nanos};

const SMALL: &str = r#"name = "small"
[machine]
bytes_per_second = 1e9
overhead_ns = 100
[machine.flops_per_second]
float = 2e9
int8 = 8e9
[[spaces]]
name = "sram"
capacity = 65536
alignment = 16
[[spaces]]
name = "flash"
[[links]]
from = "flash"
to = "sram"
bytes_per_second = 40e6
latency_ns = 500
"#;

fn made(made: u64) -> Traffic {
    Traffic { made, constant: 0 }
}

#[test]
fn built_in_targets_parse_and_state_their_sources() {
    for (name, text) in BUILT_IN {
        let target = Target::parse(text).unwrap();
        assert_eq!(target.name, name);
        assert!(!target.summary.is_empty());
        for line in text.lines().filter(|line| line.contains("_per_second = ")) {
            assert!(text[..text.find(line).unwrap()].contains('#'), "{name}: {line} states no source");
        }
    }
    assert!(BUILT_IN.is_sorted_by_key(|(name, _)| *name));
    assert_eq!(target::built_in("none"), None);
}

#[test]
fn the_default_is_the_file_cpu() {
    assert_eq!(Target::parse(target::built_in("cpu").unwrap()), Ok(Target::default()));
}

#[test]
fn rates_and_spaces_are_read_from_the_file() {
    let target = Target::parse(SMALL).unwrap();
    assert_eq!((target.spaces[0].capacity, target.spaces[0].alignment), (Some(Bytes(65_536)), Some(16)));
    assert_eq!((target.spaces[1].capacity, target.spaces[1].alignment), (None, None));
    assert_eq!(target.link(1, 0).unwrap().time(Bytes(4_000)), Nanos(100_500.0));
    assert_eq!(target.link(0, 1), None);
    let rates = &target.machine.flops_per_second;
    assert_eq!(rates.of(ElementType::Uint8), 8e9);
    assert_eq!(rates.of(ElementType::Float16), 2e9);
    assert_eq!(rates.of(ElementType::Double), 1e9);
    assert_eq!(target.machine.time(2_000, made(500), ElementType::Float), Nanos(1_100.0));
    assert_eq!(target.machine.time(2_000, made(5_000), ElementType::Float), Nanos(5_100.0));
}

#[test]
fn a_cache_serves_reads_up_to_its_capacity() {
    let cached = SMALL.replace(
        "[machine.flops",
        "[machine.cache]\ncapacity = 1000\nbytes_per_second = 10e9\n[machine.flops",
    );
    let machine = Target::parse(&cached).unwrap().machine;
    assert_eq!(machine.time(0, made(1_000), ElementType::Float).0.round(), 200.0);
    assert_eq!(machine.time(0, made(3_000), ElementType::Float).0.round(), 2_200.0);
    // Constants come from memory, even if they would fit the cache.
    assert_eq!(
        machine.time(0, Traffic { made: 500, constant: 1_000 }, ElementType::Float).0.round(),
        1_150.0
    );
    let slow = cached.replace("10e9", "0.5");
    assert!(Target::parse(&slow).unwrap_err().to_string().starts_with("line 7: `bytes_per_second` is 0.5"));
}

#[test]
fn a_link_can_be_added() {
    let mut target = Target::parse(SMALL).unwrap();
    target.connect("flash", 1e9, Nanos(0.0));
    target.connect("host", 16e9, Nanos(10_000.0));
    assert_eq!(target.spaces.len(), 3);
    assert_eq!(target.links.len(), 4);
    assert_eq!(target.link(1, 0).unwrap().bytes_per_second, 1e9);
    assert_eq!(target.link(0, 2).unwrap().time(Bytes(16_000)), Nanos(11_000.0));
}

/// Changes one line of [`SMALL`], and returns the error of the result.
fn refusal(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from), "{from}");
    Target::parse(&SMALL.replacen(from, to, 1)).unwrap_err().to_string()
}

#[test]
fn wrong_files_are_refused_with_the_line() {
    let form = Target::parse("name = 3").unwrap_err();
    assert!(matches!(form, TargetError::Form { line: 1, .. }), "{form}");
    assert!(refusal("overhead_ns = 100", "overhead_ns = ?").starts_with("line 4: "));
    assert!(refusal("overhead_ns = 100\n", "").contains("overhead_ns"));
    assert!(refusal("int8 =", "int9 =").contains("int9"));
    assert_eq!(
        refusal("float = 2e9", "float = -1"),
        "line 6: `float` is -1, but must be a number from 1 to 1e24"
    );
    assert_eq!(
        refusal("float = 2e9", "float = nan"),
        "line 6: `float` is NaN, but must be a number from 1 to 1e24"
    );
    assert!(refusal("latency_ns = 500", "latency_ns = inf").starts_with("line 18: `latency_ns` is inf"));
    assert!(refusal("\"sram\"", "\"s=r\"").starts_with("line 9: `s=r` is not a valid name"));
    assert_eq!(refusal("\"flash\"", "\"sram\""), "line 13: there is a second space named `sram`");
    assert_eq!(
        refusal("from = \"flash\"", "from = \"rom\""),
        "line 15: a link names the space `rom`, but the target has `sram`, `flash`"
    );
    assert_eq!(refusal("from = \"flash\"", "from = \"sram\""), "line 16: a link leads from `sram` to itself");
    assert_eq!(
        refusal("alignment = 16", "alignment = 24"),
        "line 11: the alignment 24 is not a power of two up to 1073741824"
    );
    assert_eq!(
        refusal("alignment = 16", "alignment = 0"),
        "line 11: the alignment 0 is not a power of two up to 1073741824"
    );
    let links = SMALL.find("[[links]]").unwrap();
    let twice = format!("{SMALL}{}", &SMALL[links..]);
    assert_eq!(
        Target::parse(&twice).unwrap_err().to_string(),
        "line 20: there is a second link from `flash` to `sram`"
    );
    let spaces = SMALL.find("[[spaces]]").unwrap();
    assert_eq!(Target::parse(&SMALL[..spaces]), Err(TargetError::NoSpace));
    let many: String = (0..17).map(|index| format!("[[spaces]]\nname = \"s{index}\"\n")).collect();
    let many = format!("{}{many}", &SMALL[..spaces]);
    assert_eq!(Target::parse(&many), Err(TargetError::TooManySpaces { count: 17, most: 16 }));
}

/// Lines of two kinds with numbers that print exactly.
fn lines() -> memc_cost::Lines {
    let mut lines = memc_cost::Lines::default();
    lines.set(
        memc_ops::KernelKind::Conv,
        memc_cost::Line { costs: [2_000.0, 0.01, 0.25, 0.04, 0.125], error: 0.057 },
    );
    lines.set(memc_ops::KernelKind::Norm, memc_cost::Line { costs: [0.0, 0.0, 0.0, 0.5, 0.0], error: 0.3 });
    lines
}

#[test]
fn calibrated_targets_keep_the_text_of_their_base() {
    let base = target::built_in("cpu").unwrap();
    let text = target::calibrated(base, "mine", "a \"quoted\" processor", &lines());
    let (mine, cpu) = (Target::parse(&text).unwrap(), Target::parse(base).unwrap());
    assert_eq!((mine.name.as_str(), mine.summary.as_str()), ("mine", "a  quoted  processor"));
    assert_eq!(mine.machine.lines, lines());
    let plain = memc_cost::Machine { lines: memc_cost::Lines::default(), ..mine.machine };
    assert_eq!((plain, &mine.spaces, &mine.links), (cpu.machine, &cpu.spaces, &cpu.links));
    assert!(cpu.machine.lines.is_empty() && base.matches('#').count() < text.matches('#').count());
    // A second calibration replaces the first.
    let again = target::calibrated(&text, "mine", "a \"quoted\" processor", &lines());
    assert_eq!(again, text);
}

#[test]
fn a_line_is_the_time_of_its_kind_alone() {
    let text = "mem 1\nir_version 10\nopset \"\" 21\n\ngraph @g {\n  input %x : f32[10,100]\n  \
                %a = Softmax(%x) : f32[10,100]\n  %b = Relu(%a) : f32[10,100]\n  return %b\n}\n";
    let module = memc_ir::text::parse(text).unwrap();
    let nodes = &module.graph(module.main()).nodes;
    let (plain, mut machine) = (Target::default().machine, Target::default().machine);
    machine.lines = lines();
    // 8,000 bytes at half a nanosecond each.
    assert_eq!(memc_cost::nanos(&module, nodes[0], &machine).0, 4_000.0);
    assert_eq!(memc_cost::nanos(&module, nodes[1], &machine), memc_cost::nanos(&module, nodes[1], &plain));
}
