//! Encoded values and weights by form: their number, their bytes, and the bytes of their codes.

use std::collections::{BTreeMap, BTreeSet};

use memc_layout::{EncodedWeight, Layout};

/// Encoded values of one form, or encoded weights. All sizes are bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Encoded<'a> {
    pub form: &'a str,
    /// Whether the decoded values have the bits of the wide ones.
    pub exact: bool,
    /// Number of values, each counted once for every code; number of matrices of weights.
    pub count: usize,
    /// Size of the wide values.
    pub wide: u64,
    /// Size of the codes.
    pub code: u64,
    /// Largest relative error of a matrix of weights. `None` for other values.
    pub error: Option<f64>,
}

impl Encoded<'_> {
    /// Returns the bytes by which the codes are smaller; 0 if they are not.
    pub(crate) fn saved(&self) -> u64 {
        self.wide.saturating_sub(self.code)
    }
    /// Returns the words that reports use for the exactness of the form.
    pub(crate) fn verdict(&self) -> String {
        match self.error {
            _ if self.exact => "exact".to_owned(),
            Some(error) => format!("lossy, by at most {:.2} %", 100.0 * error),
            None => "lossy".to_owned(),
        }
    }
}

/// Returns a row for each form: exact forms of values, lossy ones, weights.
pub(crate) fn encoded(layout: &Layout) -> Vec<Encoded<'_>> {
    let mut rows = values(layout);
    rows.extend(weights(&layout.encoded_weights));
    rows
}

/// Returns a row for each form of values, exact ones first, in alphabetical order. A code that is decoded
/// several times counts once.
fn values(layout: &Layout) -> Vec<Encoded<'_>> {
    if layout.encodings.is_empty() {
        return Vec::new();
    }
    let sizes: BTreeMap<&str, u64> =
        layout.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.bytes)).collect();
    let size = |name: &str| sizes.get(name).copied().unwrap_or(0);
    let mut forms: BTreeMap<(bool, &str), Encoded<'_>> = BTreeMap::new();
    let (mut values, mut codes) = (BTreeSet::new(), BTreeSet::new());
    for row in &layout.encodings {
        let fresh = Encoded { form: &row.form, exact: row.exact, ..Encoded::default() };
        let form = forms.entry((!row.exact, row.form.as_str())).or_insert(fresh);
        if values.insert((&row.of, &row.code)) {
            form.count += 1;
            form.wide = form.wide.saturating_add(size(&row.of));
        }
        for code in row.code.iter().filter(|code| codes.insert(code.as_str())) {
            form.code = form.code.saturating_add(size(code));
        }
    }
    forms.into_values().collect()
}

/// Returns a row for each number of bits of encoded weights. Parts of a matrix count as one matrix.
fn weights(rows: &[EncodedWeight]) -> Vec<Encoded<'static>> {
    let mut forms: BTreeMap<u64, Encoded<'static>> = BTreeMap::new();
    let mut matrices = BTreeSet::new();
    for row in rows {
        let form = forms.entry(row.bits).or_default();
        form.form = match row.bits {
            4 => "weights int4",
            8 => "weights int8",
            _ => "weights",
        };
        form.count += usize::from(matrices.insert((row.bits, &row.of)));
        form.wide = form.wide.saturating_add(row.before);
        form.code = form.code.saturating_add(row.after);
        form.error = Some(form.error.unwrap_or_default().max(row.relative_error));
    }
    forms.into_values().collect()
}
