//! Placement problems as comma-separated values, in the columns that google/minimalloc publishes.
//!
//! A header names the columns: `id`, `lower`, `upper` (half-open; or `end`, inclusive), `size`, and
//! optionally `alignment`, `offset`, `gaps` and `hint`. A gap is `3-5` (nothing lives at steps 3 and 4)
//! or `3-5@0:64` (only bytes 0..64 live). Blanks separate gaps. With an `end` column, the ends of gaps
//! are inclusive too. Columns of other names and `hint` are ignored.

use thiserror::Error;

use super::problem::{Buffer, Gap, Problem, Solution};

/// A problem with the names of its buffers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The `id` column, in the order of the buffers.
    pub ids: Vec<String>,
    /// The problem, without a capacity.
    pub problem: Problem,
}

/// Reason why a text is not a placement problem.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CsvError {
    /// The header lacks a column.
    #[error("the header names no column `{column}`")]
    MissingColumn {
        /// Name of the column.
        column: &'static str,
    },
    /// A row has too few fields.
    #[error("line {line}: no field for column `{column}`")]
    MissingField {
        /// Line, from 1.
        line: usize,
        /// Name of the missing column.
        column: &'static str,
    },
    /// A field is not a natural number in the range of its type.
    #[error("line {line}: `{field}` in column `{column}` is not a number in range")]
    BadNumber {
        /// Line, from 1.
        line: usize,
        /// Name of the column.
        column: &'static str,
        /// Text of the field.
        field: String,
    },
    /// A gap is not spelled `start-end` or `start-end@from:to`.
    #[error("line {line}: `{field}` is not a gap")]
    BadGap {
        /// Line, from 1.
        line: usize,
        /// Text of the gap.
        field: String,
    },
}

/// Positions of the known columns.
struct Columns {
    id: usize,
    lower: usize,
    upper: usize,
    /// Whether `upper` is the last live step instead of the first step after it.
    inclusive: bool,
    size: usize,
    alignment: Option<usize>,
    offset: Option<usize>,
    gaps: Option<usize>,
}

impl Columns {
    fn read(header: &str) -> Result<Self, CsvError> {
        let names: Vec<&str> = header.split(',').map(str::trim).collect();
        let find = |name: &str| names.iter().position(|other| *other == name);
        let need = |column: &'static str| find(column).ok_or(CsvError::MissingColumn { column });
        let (upper, inclusive) = match find("upper") {
            Some(upper) => (upper, false),
            None => (find("end").ok_or(CsvError::MissingColumn { column: "upper" })?, true),
        };
        let (alignment, offset, gaps) = (find("alignment"), find("offset"), find("gaps"));
        Ok(Self {
            id: need("id")?,
            lower: need("lower")?,
            upper,
            inclusive,
            size: need("size")?,
            alignment,
            offset,
            gaps,
        })
    }
}

/// Reads a problem. An `offset` column fixes the offsets whose field is neither empty nor negative.
/// O(length).
///
/// The problem may still break the rules of [`Problem::validate`].
///
/// # Errors
/// Fails if a column or field is missing, or if a field is not a number in range.
pub fn read(text: &str) -> Result<Table, CsvError> {
    let mut table = Table::default();
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (_, header) = lines.next().ok_or(CsvError::MissingColumn { column: "id" })?;
    let columns = Columns::read(header.trim_start_matches('\u{feff}'))?;
    for (number, line) in lines {
        let row = Row { line: number + 1, fields: line.split(',').map(str::trim).collect() };
        let (id, buffer) = row.buffer(&columns)?;
        table.ids.push(id);
        table.problem.buffers.push(buffer);
    }
    Ok(table)
}

struct Row<'a> {
    line: usize,
    fields: Vec<&'a str>,
}

impl Row<'_> {
    fn buffer(&self, columns: &Columns) -> Result<(String, Buffer), CsvError> {
        let id = self.field(columns.id, "id")?.to_owned();
        let start = self.number(columns.lower, "lower")?;
        let end = self.end(columns)?;
        let size = self.number(columns.size, "size")?;
        let alignment = self.optional(columns.alignment, "alignment")?.unwrap_or(1);
        let fixed_offset = self.optional(columns.offset, "offset")?;
        let gaps = self.gaps(columns)?;
        Ok((id, Buffer { start, end, size, alignment, fixed_offset, gaps }))
    }

    fn field(&self, index: usize, column: &'static str) -> Result<&str, CsvError> {
        self.fields.get(index).copied().ok_or(CsvError::MissingField { line: self.line, column })
    }

    fn number<T: std::str::FromStr>(&self, index: usize, column: &'static str) -> Result<T, CsvError> {
        let field = self.field(index, column)?;
        field.parse().map_err(|_| CsvError::BadNumber { line: self.line, column, field: field.to_owned() })
    }

    fn end(&self, columns: &Columns) -> Result<u32, CsvError> {
        let column = if columns.inclusive { "end" } else { "upper" };
        let written: u32 = self.number(columns.upper, column)?;
        let end = written.checked_add(u32::from(columns.inclusive));
        end.ok_or_else(|| CsvError::BadNumber { line: self.line, column, field: written.to_string() })
    }

    /// Reads a number that may be absent: an empty field or -1, a common way to write absence.
    fn optional(&self, index: Option<usize>, column: &'static str) -> Result<Option<u64>, CsvError> {
        let present = index.and_then(|index| self.fields.get(index).map(|field| (index, *field)));
        match present {
            None | Some((_, "" | "-1")) => Ok(None),
            Some((index, _)) => self.number(index, column).map(Some),
        }
    }

    fn gaps(&self, columns: &Columns) -> Result<Vec<Gap>, CsvError> {
        let field = columns.gaps.and_then(|index| self.fields.get(index).copied()).unwrap_or("");
        let parse = |gap: &str| {
            parse_gap(gap, columns.inclusive)
                .ok_or_else(|| CsvError::BadGap { line: self.line, field: gap.to_owned() })
        };
        field.split_whitespace().map(parse).collect()
    }
}

fn parse_gap(text: &str, inclusive: bool) -> Option<Gap> {
    let (span, window) = match text.split_once('@') {
        Some((span, window)) => (span, Some(window)),
        None => (text, None),
    };
    let (start, end) = span.split_once('-')?;
    let end = end.parse::<u32>().ok()?.checked_add(u32::from(inclusive))?;
    let window = match window {
        Some(window) => {
            let (low, high) = window.split_once(':')?;
            Some((low.parse().ok()?, high.parse().ok()?))
        }
        None => None,
    };
    Some(Gap { start: start.parse().ok()?, end, window })
}

/// Writes a problem, or with a solution its answer: equal rows with an `offset` column. Optional columns
/// appear only if some buffer needs them. O(n).
#[must_use]
pub fn write(table: &Table, solution: Option<&Solution>) -> String {
    let buffers = &table.problem.buffers;
    let alignment = buffers.iter().any(|buffer| buffer.alignment != 1);
    let gaps = buffers.iter().any(|buffer| !buffer.gaps.is_empty());
    let offset = solution.is_some() || buffers.iter().any(|buffer| buffer.fixed_offset.is_some());
    let mut text = String::from("id,lower,upper,size");
    for (present, name) in [(alignment, ",alignment"), (gaps, ",gaps"), (offset, ",offset")] {
        text.push_str(if present { name } else { "" });
    }
    text.push('\n');
    for (index, (id, buffer)) in table.ids.iter().zip(buffers).enumerate() {
        let mut fields =
            vec![id.clone(), buffer.start.to_string(), buffer.end.to_string(), buffer.size.to_string()];
        if alignment {
            fields.push(buffer.alignment.to_string());
        }
        if gaps {
            fields.push(buffer.gaps.iter().map(gap_text).collect::<Vec<_>>().join(" "));
        }
        if offset {
            let solved = solution.and_then(|solution| solution.offsets.get(index).copied());
            fields.push(solved.or(buffer.fixed_offset).map_or_else(String::new, |offset| offset.to_string()));
        }
        text.push_str(&fields.join(","));
        text.push('\n');
    }
    text
}

fn gap_text(gap: &Gap) -> String {
    match gap.window {
        Some((low, high)) => format!("{}-{}@{low}:{high}", gap.start, gap.end),
        None => format!("{}-{}", gap.start, gap.end),
    }
}
