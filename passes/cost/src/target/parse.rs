//! Parser of target files: reads the keys, then checks the conditions between them.

use std::collections::BTreeMap;

use memc_ir::{Bytes, BytesError, Nanos};
use memc_ops::KernelKind;
use serde::Deserialize;
use toml::Spanned;

use super::{Kernels, Link, Space, Target, TargetError};
use crate::line::{Line, Lines};
use crate::machine::{ArithmeticRates, Cache, Machine};

/// Maximum number of spaces; no machine has more.
const MAX_SPACES: usize = 16;

/// Maximum alignment, in bytes: huge pages of one gigabyte.
const MAX_ALIGNMENT: u64 = 1 << 30;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetFile {
    name: Spanned<String>,
    #[serde(default)]
    summary: String,
    machine: MachineTable,
    #[serde(default)]
    kernels: KernelsTable,
    #[serde(default)]
    spaces: Vec<SpaceTable>,
    #[serde(default)]
    links: Vec<LinkTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineTable {
    flops_per_second: RatesTable,
    bytes_per_second: Spanned<f64>,
    overhead_ns: Spanned<f64>,
    sustained: Option<Spanned<f64>>,
    cache: Option<CacheTable>,
    #[serde(default)]
    kinds: BTreeMap<Spanned<String>, KindTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KindTable {
    overhead_ns: Option<Spanned<f64>>,
    flops_per_second: Option<Spanned<f64>>,
    gathered_per_second: Option<Spanned<f64>>,
    cached_bytes_per_second: Option<Spanned<f64>>,
    bytes_per_second: Option<Spanned<f64>>,
    error: Spanned<f64>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct KernelsTable {
    workspace: Option<bool>,
}

/// A size as a number of bytes, or as text with a unit.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a number of bytes, or text such as \"128KiB\"")]
enum SizeEntry {
    Number(u64),
    Text(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheTable {
    capacity: Spanned<SizeEntry>,
    bytes_per_second: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RatesTable {
    float: Spanned<f64>,
    double: Option<Spanned<f64>>,
    float16: Option<Spanned<f64>>,
    bfloat16: Option<Spanned<f64>>,
    float8: Option<Spanned<f64>>,
    int8: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SpaceTable {
    name: Spanned<String>,
    capacity: Option<Spanned<SizeEntry>>,
    alignment: Option<Spanned<u64>>,
    constants: Option<bool>,
    access_bytes_per_second: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkTable {
    from: Spanned<String>,
    to: Spanned<String>,
    bytes_per_second: Spanned<f64>,
    latency_ns: Spanned<f64>,
}

/// Text of the file, from which errors get their lines.
struct Reader<'a> {
    text: &'a str,
}

/// Reads a target file.
pub(super) fn parse(text: &str) -> Result<Target, TargetError> {
    let reader = Reader { text };
    let file: TargetFile = toml::from_str(text).map_err(|error| TargetError::Form {
        line: reader.line(error.span().map_or(0, |span| span.start)),
        message: error.message().to_owned(),
    })?;
    let mut spaces = reader.spaces(&file.spaces)?;
    let links = reader.links(&file.links, &spaces)?;
    for (index, (space, table)) in spaces.iter_mut().zip(&file.spaces).enumerate() {
        let stores = index == 0 || links.iter().any(|link| link.to == index);
        space.constants = table.constants.unwrap_or(!stores);
    }
    Ok(Target {
        name: reader.name(&file.name)?,
        summary: file.summary.clone(),
        machine: reader.machine(&file.machine)?,
        kernels: Kernels { workspace: file.kernels.workspace.unwrap_or(Kernels::default().workspace) },
        links,
        spaces,
    })
}

impl Reader<'_> {
    fn line(&self, offset: usize) -> usize {
        self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
    }

    fn line_of<T>(&self, entry: &Spanned<T>) -> usize {
        self.line(entry.span().start)
    }

    fn name(&self, entry: &Spanned<String>) -> Result<String, TargetError> {
        let name = entry.get_ref();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(plain) && name.len() <= 64
        {
            return Ok(name.clone());
        }
        // Limit the length of text repeated in the message.
        Err(TargetError::Name { line: self.line_of(entry), name: name.chars().take(64).collect() })
    }

    fn number(
        &self,
        key: &'static str,
        entry: &Spanned<f64>,
        range: &'static str,
        holds: impl Fn(f64) -> bool,
    ) -> Result<f64, TargetError> {
        let value = *entry.get_ref();
        if value.is_finite() && holds(value) {
            return Ok(value);
        }
        Err(TargetError::Number { line: self.line_of(entry), key, value, range })
    }

    /// Accepts rates from one per second to a number that no machine reaches, so that times stay finite
    /// and their sums exact enough.
    fn rate(&self, key: &'static str, entry: &Spanned<f64>) -> Result<f64, TargetError> {
        self.number(key, entry, "a number from 1 to 1e24", |value| (1.0..=1e24).contains(&value))
    }

    fn time(&self, key: &'static str, entry: &Spanned<f64>) -> Result<Nanos, TargetError> {
        self.number(key, entry, "a number of nanoseconds from 0 to 1e12", |value| {
            (0.0..=1e12).contains(&value)
        })
        .map(Nanos)
    }

    fn machine(&self, table: &MachineTable) -> Result<Machine, TargetError> {
        let rates = &table.flops_per_second;
        let float = self.rate("float", &rates.float)?;
        let rate = |key: &'static str, entry: &Option<Spanned<f64>>, otherwise: f64| match entry {
            Some(entry) => self.rate(key, entry),
            None => Ok(otherwise),
        };
        let uniform = ArithmeticRates::uniform(float);
        let float16 = rate("float16", &rates.float16, uniform.float16)?;
        let flops_per_second = ArithmeticRates {
            float,
            double: rate("double", &rates.double, uniform.double)?,
            float16,
            bfloat16: rate("bfloat16", &rates.bfloat16, uniform.bfloat16)?,
            float8: rate("float8", &rates.float8, float16)?,
            int8: rate("int8", &rates.int8, uniform.int8)?,
        };
        let sustained = match &table.sustained {
            Some(entry) => {
                self.number("sustained", entry, "above 0 and at most 1", |value| value > 0.0 && value <= 1.0)?
            }
            None => 1.0,
        };
        let cache = table.cache.as_ref().map(|cache| {
            let bytes_per_second = self.rate("bytes_per_second", &cache.bytes_per_second)?;
            Ok(Cache { capacity: self.size(&cache.capacity)?, bytes_per_second })
        });
        let bytes_per_second = self.rate("bytes_per_second", &table.bytes_per_second)?;
        let overhead = self.time("overhead_ns", &table.overhead_ns)?;
        let lines = self.lines(&table.kinds)?;
        Ok(Machine {
            flops_per_second,
            bytes_per_second,
            cache: cache.transpose()?,
            overhead,
            sustained,
            lines,
        })
    }

    /// Reads the laws of kinds of kernels. A rate that is left out is a term that takes no time.
    fn lines(&self, tables: &BTreeMap<Spanned<String>, KindTable>) -> Result<Lines, TargetError> {
        let mut lines = Lines::default();
        for (name, table) in tables {
            let unknown = || TargetError::UnknownKind {
                line: self.line_of(name),
                name: name.get_ref().chars().take(64).collect(),
                known: KernelKind::ALL.map(|(name, _)| name).join(", "),
            };
            let kind = KernelKind::named(name.get_ref()).ok_or_else(unknown)?;
            let cost = |key: &'static str, entry: &Option<Spanned<f64>>| match entry {
                Some(entry) => self.rate(key, entry).map(|rate| 1e9 / rate),
                None => Ok(0.0),
            };
            let overhead =
                table.overhead_ns.as_ref().map(|entry| self.time("overhead_ns", entry)).transpose()?;
            let costs = [
                overhead.map_or(0.0, |nanos| nanos.0),
                cost("flops_per_second", &table.flops_per_second)?,
                cost("gathered_per_second", &table.gathered_per_second)?,
                cost("cached_bytes_per_second", &table.cached_bytes_per_second)?,
                cost("bytes_per_second", &table.bytes_per_second)?,
            ];
            let error = self.number("error", &table.error, "a share from 0 to 100", |value| {
                (0.0..=100.0).contains(&value)
            })?;
            lines.set(kind, Line { costs, error });
        }
        Ok(lines)
    }

    fn spaces(&self, tables: &[SpaceTable]) -> Result<Vec<Space>, TargetError> {
        if tables.is_empty() {
            return Err(TargetError::NoSpace);
        }
        if tables.len() > MAX_SPACES {
            return Err(TargetError::TooManySpaces { count: tables.len(), most: MAX_SPACES });
        }
        let mut spaces: Vec<Space> = Vec::new();
        for table in tables {
            let name = self.name(&table.name)?;
            if spaces.iter().any(|known| known.name == name) {
                return Err(TargetError::SpaceTwice { line: self.line_of(&table.name), name });
            }
            let alignment = table.alignment.as_ref().map(|entry| self.alignment(entry)).transpose()?;
            let capacity = table.capacity.as_ref().map(|entry| self.size(entry)).transpose()?;
            let rate = |entry| self.rate("access_bytes_per_second", entry);
            let access = table.access_bytes_per_second.as_ref().map(rate).transpose()?;
            if let Some(entry) = table.access_bytes_per_second.as_ref().filter(|_| spaces.is_empty()) {
                return Err(TargetError::FirstAccess { line: self.line_of(entry) });
            }
            spaces.push(Space { name, capacity, alignment, constants: false, access });
        }
        Ok(spaces)
    }

    fn size(&self, entry: &Spanned<SizeEntry>) -> Result<Bytes, TargetError> {
        match entry.get_ref() {
            SizeEntry::Number(bytes) => Ok(Bytes(*bytes)),
            SizeEntry::Text(text) => text.parse().map_err(|error: BytesError| TargetError::Form {
                line: self.line_of(entry),
                // Limit the length of text repeated in the message.
                message: BytesError { text: error.text.chars().take(64).collect() }.to_string(),
            }),
        }
    }

    fn alignment(&self, entry: &Spanned<u64>) -> Result<u64, TargetError> {
        let value = *entry.get_ref();
        if value.is_power_of_two() && value <= MAX_ALIGNMENT {
            return Ok(value);
        }
        Err(TargetError::Alignment { line: self.line_of(entry), value, most: MAX_ALIGNMENT })
    }

    fn links(&self, tables: &[LinkTable], spaces: &[Space]) -> Result<Vec<Link>, TargetError> {
        let mut links: Vec<Link> = Vec::new();
        for table in tables {
            let link = Link {
                from: self.end(&table.from, spaces)?,
                to: self.end(&table.to, spaces)?,
                bytes_per_second: self.rate("bytes_per_second", &table.bytes_per_second)?,
                latency: self.time("latency_ns", &table.latency_ns)?,
            };
            let (from, to) = (table.from.get_ref().clone(), table.to.get_ref().clone());
            if link.from == link.to {
                return Err(TargetError::SelfLink { line: self.line_of(&table.to), name: to });
            }
            if links.iter().any(|known| (known.from, known.to) == (link.from, link.to)) {
                return Err(TargetError::LinkTwice { line: self.line_of(&table.from), from, to });
            }
            links.push(link);
        }
        Ok(links)
    }

    fn end(&self, entry: &Spanned<String>, spaces: &[Space]) -> Result<usize, TargetError> {
        spaces.iter().position(|space| space.name == *entry.get_ref()).ok_or_else(|| {
            TargetError::UnknownSpace {
                line: self.line_of(entry),
                name: entry.get_ref().chars().take(64).collect(),
                known: spaces.iter().map(|space| format!("`{}`", space.name)).collect::<Vec<_>>().join(", "),
            }
        })
    }
}
