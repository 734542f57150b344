//! Expressions of dimensions against their values: random expressions, random extents inside ranges, and
//! hostile texts.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;

use memc_ir::{Comparison, Dim, DimExpr, ModuleBuilder, Range, RangeError, Ranges};
use proptest::prelude::*;

/// An expression as a tree, with its value by plain arithmetic.
#[derive(Clone, Debug)]
enum Tree {
    Number(i64),
    Symbol(usize),
    Sum(Box<Tree>, Box<Tree>),
    Difference(Box<Tree>, Box<Tree>),
    Product(Box<Tree>, Box<Tree>),
    Floor(Box<Tree>, i64),
    Ceil(Box<Tree>, i64),
    Trunc(Box<Tree>, i64),
    Mod(Box<Tree>, i64),
    By(Box<Tree>, usize),
    Min(Box<Tree>, Box<Tree>),
    Max(Box<Tree>, Box<Tree>),
}

const NAMES: [&str; 3] = ["N", "height", "x.0"];

impl Tree {
    /// Returns the value, by definitions that do not share code with the crate. Symbols as divisors are
    /// at least 1.
    fn value(&self, extents: &[i128]) -> i128 {
        let floor = |a: i128, b: i128| (a as f64 / b as f64).floor() as i128;
        match self {
            Self::Number(value) => i128::from(*value),
            Self::Symbol(at) => extents[*at],
            Self::Sum(a, b) => a.value(extents) + b.value(extents),
            Self::Difference(a, b) => a.value(extents) - b.value(extents),
            Self::Product(a, b) => a.value(extents) * b.value(extents),
            Self::Floor(a, by) => floor(a.value(extents), i128::from(*by)),
            Self::Ceil(a, by) => -floor(-a.value(extents), i128::from(*by)),
            Self::Trunc(a, by) => a.value(extents) / i128::from(*by),
            Self::Mod(a, by) => (a.value(extents) % i128::from(*by) + i128::from(*by)) % i128::from(*by),
            Self::By(a, at) => floor(a.value(extents), extents[*at] + 1),
            Self::Min(a, b) => a.value(extents).min(b.value(extents)),
            Self::Max(a, b) => a.value(extents).max(b.value(extents)),
        }
    }
    /// Writes the tree as an exporter would.
    fn text(&self) -> String {
        match self {
            Self::Number(value) => value.to_string(),
            Self::Symbol(at) => NAMES[*at].to_owned(),
            Self::Sum(a, b) => format!("({} + {})", a.text(), b.text()),
            Self::Difference(a, b) => format!("({} - {})", a.text(), b.text()),
            Self::Product(a, b) => format!("({})*({})", a.text(), b.text()),
            Self::Floor(a, by) if by % 2 == 0 => format!("({} // {by})", a.text()),
            Self::Floor(a, by) => format!("floor(({})/{by})", a.text()),
            Self::Ceil(a, by) => format!("ceiling(({})/{by})", a.text()),
            Self::Trunc(a, by) => format!("trunc(({})/{by})", a.text()),
            Self::Mod(a, by) => format!("(({}) % {by})", a.text()),
            Self::By(a, at) => format!("floor(({})/({} + 1))", a.text(), NAMES[*at]),
            Self::Min(a, b) => format!("Min({}, {})", a.text(), b.text()),
            Self::Max(a, b) => format!("Max({}, {})", a.text(), b.text()),
        }
    }
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![(-9i64..40).prop_map(Tree::Number), (0..NAMES.len()).prop_map(Tree::Symbol)];
    leaf.prop_recursive(5, 24, 2, |inner| {
        let pair = || (inner.clone(), inner.clone()).prop_map(|(a, b)| (Box::new(a), Box::new(b)));
        let part = || (inner.clone(), 1i64..9).prop_map(|(a, by)| (Box::new(a), by));
        prop_oneof![
            pair().prop_map(|(a, b)| Tree::Sum(a, b)),
            pair().prop_map(|(a, b)| Tree::Difference(a, b)),
            pair().prop_map(|(a, b)| Tree::Product(a, b)),
            part().prop_map(|(a, by)| Tree::Floor(a, by)),
            part().prop_map(|(a, by)| Tree::Ceil(a, by)),
            part().prop_map(|(a, by)| Tree::Trunc(a, by)),
            part().prop_map(|(a, by)| Tree::Mod(a, by)),
            (inner.clone(), 0..NAMES.len()).prop_map(|(a, at)| Tree::By(Box::new(a), at)),
            pair().prop_map(|(a, b)| Tree::Min(a, b)),
            pair().prop_map(|(a, b)| Tree::Max(a, b)),
        ]
    })
}

fn range() -> impl Strategy<Value = Range> {
    (0u64..6, 0u64..5, 1u64..8).prop_map(|(min, count, step)| Range {
        min,
        max: Some(min + count * step),
        step,
    })
}

/// Returns the value of an expression; `None` if it is not a number.
fn at(expr: &DimExpr, extents: &[i128]) -> Option<i128> {
    let bound: BTreeMap<String, u64> =
        NAMES.iter().zip(extents).map(|(name, extent)| ((*name).to_owned(), *extent as u64)).collect();
    expr.bind(&bound)?.as_constant().map(i128::from)
}

/// Returns every point of the ranges.
fn points(ranges: &[Range]) -> Vec<Vec<i128>> {
    ranges.iter().fold(vec![Vec::new()], |points, range| {
        let extents = (range.min..=range.max.unwrap()).filter(|extent| range.contains(*extent));
        let extend = |point: &Vec<i128>, extent: u64| [point.clone(), vec![i128::from(extent)]].concat();
        extents
            .flat_map(|extent| points.iter().map(move |point| extend(point, extent)).collect::<Vec<_>>())
            .collect()
    })
}

fn named(ranges: &[Range]) -> Ranges {
    NAMES.iter().zip(ranges).map(|(name, range)| ((*name).to_owned(), *range)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn expressions_have_the_value_of_their_tree(tree in tree(), ranges in proptest::collection::vec(range(), 3)) {
        if let Some(expr) = DimExpr::parse(&tree.text()) {
            let simplified = expr.simplified(&named(&ranges));
            prop_assert_eq!(&simplified.simplified(&named(&ranges)), &simplified, "{}", expr);
            let interval = expr.interval(&named(&ranges));
            let bounds = expr.bounds(&named(&ranges));
            for point in points(&ranges) {
                let value = tree.value(&point);
                prop_assert_eq!(at(&expr, &point), Some(value), "{} at {:?} of {}", expr, point, tree.text());
                prop_assert_eq!(at(&simplified, &point), Some(value), "{} of {} at {:?}", simplified, expr, point);
                for interval in [interval, bounds] {
                    prop_assert!(interval.min.is_none_or(|min| min <= value), "{} at {:?}", expr, point);
                    prop_assert!(interval.max.is_none_or(|max| max >= value), "{} at {:?}", expr, point);
                }
            }
        }
    }

    #[test]
    fn canonical_texts_parse_back(tree in tree(), ranges in proptest::collection::vec(range(), 3)) {
        if let Some(expr) = DimExpr::parse(&tree.text()) {
            for expr in [expr.clone(), expr.simplified(&named(&ranges))] {
                prop_assert_eq!(DimExpr::parse(&expr.to_string()), Some(expr.clone()), "{}", expr);
                let mut builder = ModuleBuilder::new();
                let main = builder.module().main();
                let ty = memc_ir::TensorType::new(memc_ir::ElementType::Float, vec![Dim::from_expr(expr.clone()), Dim::within(Some(expr))]);
                let x = builder.input(main, "x", memc_ir::ValueType::Tensor(ty), None);
                builder.output(main, x);
                let text = memc_ir::text::print(builder.module());
                let parsed = memc_ir::text::parse(&text).unwrap();
                prop_assert_eq!(memc_ir::text::print(&parsed), text);
            }
        }
    }

    #[test]
    fn comparisons_hold_at_every_point(a in tree(), b in tree(), ranges in proptest::collection::vec(range(), 3)) {
        let (Some(left), Some(right)) = (DimExpr::parse(&a.text()), DimExpr::parse(&b.text())) else { return Ok(()) };
        let all = named(&ranges);
        let (order, at_least) = (left.compare(&right, &all), left.at_least(&right, &all));
        for point in points(&ranges) {
            let (x, y) = (a.value(&point), b.value(&point));
            let holds = match order {
                Comparison::Less => x < y,
                Comparison::Equal => x == y,
                Comparison::Greater => x > y,
                Comparison::Unknown => true,
            };
            prop_assert!(holds && (!at_least || x >= y), "{} {:?} {} at {:?}", left, order, right, point);
        }
    }

    #[test]
    fn hostile_texts_never_panic(text in "[N0-9a-z()+*/%,. -]{0,60}", more in "(floor\\(|Min\\(9223372036854775807,|-|N\\*|//0|%0|9999999999/){0,40}") {
        for text in [text.clone(), more.clone(), format!("{more}{text}")] {
            let dim = Dim::from_name(&text);
            let _ = (dim.to_string(), dim.simplified(&Ranges::new()), dim.bind(&BTreeMap::from([("N".to_owned(), 0)])));
            let _ = memc_ir::text::parse(&format!("mem 1\ngraph @g {{\n  input %x : f32[{text}]\n  return %x\n}}"));
        }
    }
}

fn expr(text: &str) -> DimExpr {
    DimExpr::parse(text).unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn texts_of_exporters_have_one_canonical_form() {
    let rows = [
        ("floor(height/2 - 1/2) + 1", "floor((height+1)/2)"),
        ("floor((h-1)/2)+1", "floor((h+1)/2)"),
        ("floor((2*h)/2)", "h"),
        ("floor(floor(h/2)/2)", "floor(h/4)"),
        ("floor(floor(h/2 - 1/2)/2 + 1/2)", "floor((h+1)/4)"),
        ("(s0//2)", "floor(s0/2)"),
        ("ceil(N/3)", "floor((N+2)/3)"),
        ("N - 4*floor(N/4)", "-4*floor(N/4)+N"),
        ("N % 4", "-4*floor(N/4)+N"),
        ("Mod(N, 4)", "-4*floor(N/4)+N"),
        ("Min(512, seq)", "min(512,seq)"),
        ("min(seq, 512)", "min(512,seq)"),
        ("Max(1, floor(N/2))", "max(1,floor(N/2))"),
        ("max(-N, -M)", "-min(M,N)"),
        ("min(2*N, 2*M)", "2*min(M,N)"),
        ("min(N+3, M+5)", "min(M+2,N)+3"),
        ("min(N, N+M)", "N"),
        ("min(N, min(M, 3))", "min(3,M,N)"),
        ("max(min(N, 4), min(N, 4))", "min(4,N)"),
        ("max(2*max(3, N), 2*M)", "2*max(3,M,N)"),
        ("min(h + 2*min(3, N), h + 2*M)", "2*min(3,M,N)+h"),
        ("0.5*N + 0.5*N", "N"),
        ("floor(1.5*N)", "floor(N/2)+N"),
        ("N/2 + N/2", "N"),
        ("(N**2 + 2*N*M + M**2)/(N + M)", "N+M"),
        ("floor(N*M/M)", "N"),
        ("floor((N*M + 3)/M)", "floor(3/M)+N"),
        ("floor(6*N/(4*M))", "floor(3*N/(2*M))"),
        ("FloorDiv(N, -2)", "floor(N/2)-N"),
        ("trunc(N/2)", "floor(N/2)"),
        ("ModularIndexing(N, 2, 3)", "-3*floor(N/6)+floor(N/2)"),
        ("-(-(N))", "N"),
    ];
    for (text, canonical) in rows {
        assert_eq!(expr(text).to_string(), canonical, "{text}");
        assert_eq!(expr(canonical), expr(text), "{text}");
    }
    for text in [
        "N/2", "floor(N", "f(N)", "N//0", "N%0", "Min()", "1.5", "N N", "2x", "N**N", "N**-1", "", "()",
        "1e9*N",
    ] {
        assert_eq!(DimExpr::parse(text), None, "{text}");
    }
}

#[test]
fn ranges_simplify_and_decide() {
    let ranges = |rows: &[(&str, &str)]| -> Ranges {
        rows.iter().map(|(name, range)| ((*name).to_owned(), range.parse().unwrap())).collect()
    };
    let rows = [
        ("min(512, seq)", "seq", "1..512", "seq"),
        ("min(512, seq)", "seq", "1..513", "min(512,seq)"),
        ("max(1, seq)", "seq", "1..9", "seq"),
        ("max(1, seq)", "seq", "0..9", "max(1,seq)"),
        ("32*floor(h/32)", "h", "32..960/32", "h"),
        ("floor((h+31)/32)", "h", "32..960/32", "floor(h/32)"),
        ("8*floor((h+31)/32)", "h", "32..960/32", "8*floor(h/32)"),
        ("floor((h+1)/2)", "h", "1..9/2", "floor((h+1)/2)"),
        ("floor(h/2)", "h", "1..9/2", "floor((h+1)/2)-1"),
        ("floor(h/8)", "h", "8..15", "1"),
        ("floor(h/8)", "h", "32..960/32", "4*floor(h/32)"),
        (
            "floor(h/8)*floor(h/16) - floor((h+1)/16)",
            "h",
            "0..960/32",
            "8*floor(h/32)*floor(h/32)-2*floor(h/32)",
        ),
        ("floor((h-1)/2)+1", "h", "32..960/32", "16*floor(h/32)"),
        ("floor(h/48)", "h", "32..960/32", "floor(h/48)"),
        ("floor((3*h+6*w)/48)", "h", "32..960/32", "floor((2*w+h)/16)"),
        ("floor((3*h+16*w)/48)", "h", "48..960/48", "floor((16*w+3*h)/48)"),
        ("floor(h/8)", "h", "40..968/32", "floor(h/8)"),
        ("h + 2", "h", "5..5", "7"),
        ("max(floor((h-3)/2),0) + min(floor((h-2)/2),0) + 1", "h", "3..9", "floor((h+1)/2)-1"),
    ];
    for (text, symbol, range, simple) in rows {
        assert_eq!(
            expr(text).simplified(&ranges(&[(symbol, range)])).to_string(),
            simple,
            "{text} for {symbol} in {range}"
        );
    }
    let all = ranges(&[("N", "1..8"), ("M", "1..512"), ("h", "32..960/32")]);
    let rows = [
        ("N*M", "N", Comparison::Unknown),
        ("N*M + 1", "N", Comparison::Greater),
        ("512*N", "M*N - 1", Comparison::Greater),
        ("floor(N/2)", "N", Comparison::Less),
        ("min(N, M)", "N + 1", Comparison::Less),
        ("h", "4*floor(h/4)", Comparison::Equal),
        ("floor((h+1)/2)", "h", Comparison::Less),
        ("N", "N", Comparison::Equal),
        ("x", "-1", Comparison::Greater),
        ("x", "0", Comparison::Unknown),
    ];
    for (left, right, order) in rows {
        assert_eq!(expr(left).compare(&expr(right), &all), order, "{left} and {right}");
    }
    assert!(expr("N*M").at_least(&expr("N"), &all) && expr("512*N").at_least(&expr("M*N"), &all));
    assert!(expr("3*h + 64").is_multiple_of(32, &all) && !expr("h + N").is_multiple_of(2, &all));
}

#[test]
fn remainders_of_products_and_limits_of_quotients_are_kept() {
    let odd = Range { min: 1, max: Some(9), step: 2 };
    let all = Ranges::from([("h".to_owned(), odd), ("x".to_owned(), Range::only(3))]);
    assert!(expr("h*x + 3").is_multiple_of(6, &all) && !expr("h*x + 1").is_multiple_of(4, &all));
    assert!(expr("0").is_multiple_of(4, &all) && !expr("4").is_multiple_of(0, &all));
    let negative = expr("floor((0-N-1)/(M+1))").interval(&Ranges::new());
    assert_eq!((negative.min, negative.max), (None, Some(-1)));
    let positive = expr("floor((N+1)/(M+1))").interval(&Ranges::new());
    assert_eq!((positive.min, positive.max), (Some(0), None));
}

#[test]
fn ranges_are_read_and_checked() {
    let read = |text: &str| text.parse::<Range>();
    assert_eq!(read("1..512"), Ok(Range { min: 1, max: Some(512), step: 1 }));
    assert_eq!(read("32..970/32"), Ok(Range { min: 32, max: Some(960), step: 32 }));
    assert_eq!(read("64").unwrap(), Range::only(64));
    assert_eq!(read("0..0/5").unwrap(), Range::only(0));
    assert!(matches!(read("1.."), Err(RangeError::NoMax { .. })));
    assert!(matches!(read("5..4"), Err(RangeError::Empty { .. })));
    assert!(matches!(read("1..4/0"), Err(RangeError::Step { .. })));
    for text in ["", "..", "a..b", "1...5", "-1..4", "1..4/x", "1..99999999999999999999"] {
        assert!(matches!(read(text), Err(RangeError::Form { .. } | RangeError::NoMax { .. })), "{text}");
    }
    let text =
        "mem 1\nir_version 0\nrange \"a b\" from 32 to 960 step 32\nrange \"seq\" from 0\nstage imported\n";
    let module = memc_ir::text::parse(&format!("{text}graph @g {{\n  return\n}}\n")).unwrap();
    assert_eq!(module.domain().ranges["a b"], Range { min: 32, max: Some(960), step: 32 });
    assert!(memc_ir::text::print(&module).starts_with(text));
    for line in [
        "range \"a\" from 5 to 4",
        "range \"a\" from 1 to 8 step 2",
        "range \"a\" from 1 step 0",
        "range \"a\" 4",
    ] {
        assert!(
            memc_ir::text::parse(&format!("mem 1\n{line}\ngraph @g {{\n  return\n}}\n")).is_err(),
            "{line}"
        );
    }
}

#[test]
fn hostile_expressions_become_unknown() {
    let deep = format!("{}N{}", "floor(".repeat(31), "/3+N*N)".repeat(31));
    let _ = Dim::from_name(&deep);
    assert_eq!(DimExpr::parse(&format!("{}N{}", "floor(".repeat(40), "/3)".repeat(40))), None);
    let huge = expr("9223372036854775807*N");
    assert_eq!(huge.add(&huge), None);
    assert_eq!(huge.interval(&Ranges::new()).max, None);
    let all: Ranges = [("N".to_owned(), Range { min: 0, max: Some(u64::MAX), step: u64::MAX })].into();
    let power = ["N"; 6].join("*");
    assert_eq!(expr(&power).interval(&all).max, None);
    assert_eq!(expr(&power).simplified(&all), expr(&power));
    assert_eq!(expr("floor(N/M)").bind(&BTreeMap::from([("M".to_owned(), 0)])), None);
    let wide: Vec<String> = (0..40).map(|at| format!("s{at}")).collect();
    assert_eq!(DimExpr::parse(&format!("min({})", wide.join(","))), None);
    assert_eq!(DimExpr::parse(&wide.join("+")), None);
    let mut nested = expr("N");
    for at in 0..200 {
        let Some(next) = nested
            .mul(&expr("N"))
            .and_then(|own| own.plus_symbol(at))
            .and_then(|own| own.floor_div(&expr("7")))
        else {
            return;
        };
        nested = next;
    }
    panic!("nesting has no end");
}

/// Adds a symbol of its own to each level.
trait PlusSymbol: Sized {
    fn plus_symbol(&self, at: usize) -> Option<Self>;
}

impl PlusSymbol for DimExpr {
    fn plus_symbol(&self, at: usize) -> Option<Self> {
        self.add(&DimExpr::symbol(&format!("s{at}")))
    }
}

#[test]
fn quoted_texts_come_back() {
    let two = DimExpr::symbol("two words").mul(&DimExpr::symbol("q\"\\")).unwrap();
    let all = two.add(&DimExpr::symbol("N.1")).unwrap().floor_div(&DimExpr::constant(3)).unwrap();
    let text = all.quoted();
    assert!(text.contains("\"two words\"") && text.contains("N.1") && !text.contains("\"N.1\""), "{text}");
    assert_eq!(DimExpr::parse_quoted(&text), Some(all));
    assert_eq!(DimExpr::parse(&text), None);
    assert_eq!(DimExpr::parse_quoted("\"open"), None);
}

#[test]
fn common_factors_are_apart_from_roundings() {
    let ranges = Ranges::from([
        ("N".to_owned(), "1..8".parse().unwrap()),
        ("S".to_owned(), "1..512".parse().unwrap()),
    ]);
    let most = |text: &str| DimExpr::parse(text).unwrap().upper_bound(&ranges);
    assert_eq!(most("floor(3*N/4)-floor(5*N/8)"), Some(1));
    assert_eq!(most("197*floor(3*N/4)-197*floor(5*N/8)"), Some(197));
    assert_eq!(most("197*floor(3*N/4)-197*floor(5*N/8)+3"), Some(200));
    // No more than two of eight rows, although three quarters of a row more would be possible.
    assert_eq!(most("S*floor(2*N/5)-S*floor(N/5)"), Some(1024));
    assert_eq!(most("S*floor(3*N/4)-S*floor(5*N/8)"), Some(512));
    assert_eq!(DimExpr::parse("4*S*N-4*S").unwrap().lower_bound(&ranges), Some(0));
    assert_eq!(DimExpr::parse("2*S*N-6*S").unwrap().lower_bound(&ranges), Some(-2048));
}
