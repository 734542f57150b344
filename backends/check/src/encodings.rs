//! Checks rows of `encodings`: the path from the wide value over its code to the decoded value, proofs of
//! exact forms, and the readers of rounded values.

use std::collections::BTreeSet;

use memc_ir::{ElementType, Value};
use memc_layout::Encoding;
use memc_ops::View;

use crate::codec::{Codec, Computed};
use crate::codes::Kind;
use crate::ctx::Ctx;
use crate::findings::{At, Findings};
use crate::inverses::may_state;
use crate::numbering::Numbers;

/// Maximum number of values between a wide value and its code, or between the code and the decoded
/// value. Encodings of one value take about ten nodes.
const MAX_CHAIN: usize = 64;

/// Form of values that follow from the result of a node that reads them.
const INVERSE: &str = "inverse";

/// Option of a layout that names the lossy forms, separated by commas or spaces.
const LOSSY: &str = "lossy";

/// A row of `encodings` whose path is right.
pub(crate) struct Pair<'a> {
    row: &'a Encoding,
    pub(crate) of: Value,
    pub(crate) decoded: Value,
    /// First step that reads the wide value for its code.
    encoded_at: usize,
    /// Steps that compute the code.
    encoding: BTreeSet<usize>,
}

/// Checks the paths of all rows. Returns the rows with right paths.
pub(crate) fn pairs<'a>(ctx: &Ctx<'a>, findings: &mut Findings) -> Vec<Pair<'a>> {
    let mut pairs = Vec::new();
    let mut named = BTreeSet::new();
    for row in &ctx.layout.encodings {
        let found = if named.insert(&row.decoded) {
            pair(ctx, row)
        } else {
            Err("is decoded in two rows".to_owned())
        };
        match found {
            Ok(pair) => pairs.push(pair),
            Err(why) => {
                let message =
                    format!("the row of `{}`, encoded as {}: `{}` {why}", row.of, row.form, row.decoded);
                findings.add(Kind::Encoding, At::tensor(&row.decoded), message);
            }
        }
    }
    pairs
}

/// Returns the pair of a row, or the fault of the decoded value.
fn pair<'a>(ctx: &Ctx<'a>, row: &'a Encoding) -> Result<Pair<'a>, String> {
    let out = ctx.out;
    let value = |name: &String| {
        out.named.get(name).copied().ok_or_else(|| format!("belongs to `{name}`, which is no value"))
    };
    let (of, decoded) = (value(&row.of)?, value(&row.decoded)?);
    if row.form == INVERSE {
        return inverse(ctx, row, of, decoded);
    }
    if row.error.is_some() {
        return Err("has an error, although its form is no inverse".to_owned());
    }
    let code: Vec<Value> = row.code.iter().map(value).collect::<Result<_, _>>()?;
    if code.is_empty() || code.contains(&of) || code.contains(&decoded) || of == decoded {
        return Err("has no code of its own".to_owned());
    }
    if out.known[of].is_none() || out.known[of] != out.known[decoded] {
        return Err("has another type than the wide value".to_owned());
    }
    let elements = code.iter().map(|value| out.known[*value].as_ref().map(|known| known.element));
    let holds = |of: &[ElementType]| {
        elements.clone().any(|element| element.is_some_and(|element| of.contains(&element)))
    };
    let is_form = row.exact
        || match row.form.as_str() {
            "f16" => holds(&[ElementType::Float16]),
            "bf16" => holds(&[ElementType::Bfloat16]),
            "int8" => holds(&[ElementType::Int8, ElementType::Uint8]),
            _ => false,
        };
    if !is_form {
        return Err("has no code of this form".to_owned());
    }
    // From the decoded value to the code, then from the code to the wide value.
    let decoding =
        path(ctx, &[decoded], &code).filter(|path| code.iter().all(|value| path.ends.contains(value)));
    if decoding.is_none_or(|path| path.steps.is_empty()) {
        return Err("is not computed from the code and constants alone".to_owned());
    }
    let encoding = path(ctx, &code, &[of]).filter(|path| path.ends.contains(&of));
    let encoding = encoding.ok_or_else(|| {
        "has a code that is not computed from the wide value and constants alone".to_owned()
    })?;
    let reads = |step: &usize| out.rows[ctx.order[*step]].reads.contains(&of);
    let encoded_at = encoding.steps.iter().copied().find(reads).unwrap_or_default();
    Ok(Pair { row, of, decoded, encoded_at, encoding: encoding.steps })
}

/// Returns the pair of a row without a code. Its value is read first where it is given back.
fn inverse<'a>(ctx: &Ctx<'a>, row: &'a Encoding, of: Value, decoded: Value) -> Result<Pair<'a>, String> {
    let out = ctx.out;
    if !row.code.is_empty() || of == decoded || row.exact == row.error.is_some() {
        return Err("is given back, so it has no code, and an error if it rounds".to_owned());
    }
    if out.known[of].is_none() || out.known[of] != out.known[decoded] {
        return Err("has another type than the wide value".to_owned());
    }
    match out.producer[decoded].filter(|row| !out.unrepeatable(*row)) {
        Some(made) => Ok(Pair { row, of, decoded, encoded_at: ctx.step_of[made], encoding: BTreeSet::new() }),
        None => Err("is not made by a node that may run again".to_owned()),
    }
}

/// Checks that values which return rounded follow from results of nodes that read them, and that the rows
/// state the error. `numbers` take rounded values for the wide ones.
pub(crate) fn rounding(
    ctx: &Ctx<'_>,
    pairs: &[Pair<'_>],
    numbers: &Numbers,
    codec: &Codec,
    findings: &mut Findings,
) {
    for pair in pairs.iter().filter(|pair| !pair.row.exact && pair.row.form == INVERSE) {
        let Some(row) = ctx.out.producer[pair.decoded] else { continue };
        let computed =
            Computed { side: ctx.out, row, value: pair.decoded, operands: &numbers.parts[row].operands };
        let is_product = computed.operator() == Some("Mul");
        let is_given_back = codec.given_back(computed, true) == Some(numbers.values[pair.of]);
        if !is_given_back || !may_state(pair.row.error, is_product) {
            let what =
                if is_given_back { "does not have the stated error" } else { "is not provably given back" };
            let message = format!("`{}`, in place of `{}`, {what}", pair.row.decoded, pair.row.of);
            findings.add(Kind::EncodingUnproven, At::tensor(&pair.row.decoded), message);
        }
    }
}

/// Steps of nodes that compute values, and the values at which the path ends.
struct Path {
    steps: BTreeSet<usize>,
    ends: BTreeSet<Value>,
}

/// Follows values back to `ends` and constants. `None` if another value is read, if a node may not run
/// again or has bodies, or if the path is too long.
fn path(ctx: &Ctx<'_>, from: &[Value], ends: &[Value]) -> Option<Path> {
    let out = ctx.out;
    let mut found = Path { steps: BTreeSet::new(), ends: BTreeSet::new() };
    let (mut open, mut seen) = (from.to_vec(), BTreeSet::new());
    while let Some(value) = open.pop() {
        if ends.contains(&value) {
            found.ends.insert(value);
            continue;
        }
        if out.module.constant_of(value).is_some() || !seen.insert(value) {
            continue;
        }
        let row = out.producer[value]?;
        let has_bodies = out.module.node(out.rows[row].node).bodies().next().is_some();
        if out.unrepeatable(row) || has_bodies || seen.len() > MAX_CHAIN {
            return None;
        }
        found.steps.insert(ctx.step_of[row]);
        open.extend(&out.rows[row].reads);
    }
    Some(found)
}

/// Checks that exact pairs have equal numbers, that the options name the lossy forms, and that no early
/// reader gets a rounded value. `numbers` fold nothing but exact forms.
pub(crate) fn check(ctx: &Ctx<'_>, pairs: &[Pair<'_>], numbers: &Numbers, findings: &mut Findings) {
    let options = &ctx.layout.options;
    let allowed: BTreeSet<&str> = match options.get("exact").map(String::as_str) {
        Some("true") => BTreeSet::new(),
        _ => options.get(LOSSY).into_iter().flat_map(|forms| forms.split([',', ' '])).collect(),
    };
    for pair in pairs {
        let row = pair.row;
        let at = At::tensor(&row.decoded);
        if row.exact {
            if numbers.values[pair.of] != numbers.values[pair.decoded] {
                let message = format!(
                    "`{}` is not provably equal to `{}`, which was encoded as {}",
                    row.decoded, row.of, row.form
                );
                findings.add(Kind::EncodingUnproven, at, message);
            }
            continue;
        }
        if !allowed.contains(row.form.as_str()) {
            let message = format!("`{}` is rounded to {}, but the options do not allow it", row.of, row.form);
            findings.add(Kind::EncodingLossy, at, message);
        }
        early(ctx, pair, findings);
    }
}

/// Checks that the decoded value has no reader that precedes, in the input model, the last reader of the
/// wide value before the encoding. Recomputed copies and views do not count as readers.
fn early(ctx: &Ctx<'_>, pair: &Pair<'_>, findings: &mut Findings) {
    let wide = readers(ctx, pair.of)
        .into_iter()
        .filter(|step| *step < pair.encoded_at && !pair.encoding.contains(step));
    let Some((last, first)) = wide.filter_map(|step| Some((step, place(ctx, step)?))).max() else { return };
    for step in readers(ctx, pair.decoded) {
        if place(ctx, step).is_some_and(|place| place < first) {
            let name = ctx.node_at(step);
            let message = format!(
                "step {step}: `{name}` reads the rounded `{}`, but runs before `{}` in the input model, which reads `{}`",
                pair.row.decoded,
                ctx.node_at(last),
                pair.row.of
            );
            findings.add(Kind::EncodingEarly, At::node(step, name).of(&pair.row.decoded), message);
        }
    }
}

/// Returns the steps that read a value or a view of it.
fn readers(ctx: &Ctx<'_>, value: Value) -> BTreeSet<usize> {
    let (mut steps, mut open, mut seen) = (BTreeSet::new(), vec![value], BTreeSet::new());
    while let Some(value) = open.pop().filter(|_| seen.len() <= MAX_CHAIN) {
        for step in &ctx.readers[value] {
            let row = &ctx.out.rows[ctx.order[*step]];
            let first = ctx.out.module.node(row.node).outputs.first().copied().flatten();
            match first.filter(|_| row.info.is_some_and(|info| info.view == View::Reshape)) {
                Some(view) if seen.insert(view) => open.push(view),
                Some(_) => {}
                None => {
                    steps.insert(*step);
                }
            }
        }
    }
    steps
}

/// Returns the row of the input model that computes the first result of the node at a step. `None` for
/// nodes that only the output model has, and so for recomputed copies.
fn place(ctx: &Ctx<'_>, step: usize) -> Option<usize> {
    let value = ctx.out.module.node(ctx.out.rows[ctx.order[step]].node).results().next()?;
    ctx.given.producer[*ctx.given.named.get(ctx.out.name(value))?]
}

impl Pair<'_> {
    /// Whether the decoded value has the bits of the wide one, by the layout.
    pub(crate) fn is_exact(&self) -> bool {
        self.row.exact
    }
}
