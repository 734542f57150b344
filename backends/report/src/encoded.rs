//! Encoded values by form: their number, their bytes, and the bytes of their codes.

use std::collections::{BTreeMap, BTreeSet};

use memc_layout::Layout;

/// Encoded values of one form. All sizes are bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Encoded<'a> {
    pub form: &'a str,
    /// Whether the decoded values have the bits of the wide ones.
    pub exact: bool,
    /// Number of values, each counted once for every code.
    pub count: usize,
    /// Size of the wide values.
    pub wide: u64,
    /// Size of the codes.
    pub code: u64,
}

impl Encoded<'_> {
    /// Returns the bytes by which the codes are smaller; 0 if they are not.
    pub(crate) fn saved(&self) -> u64 {
        self.wide.saturating_sub(self.code)
    }
    /// Returns the word that reports use for the exactness of the form.
    pub(crate) fn verdict(&self) -> &'static str {
        if self.exact { "exact" } else { "lossy" }
    }
}

/// Returns a row for each form, exact ones first, in alphabetical order. A code that is decoded several
/// times counts once.
pub(crate) fn encoded(layout: &Layout) -> Vec<Encoded<'_>> {
    if layout.encodings.is_empty() {
        return Vec::new();
    }
    let sizes: BTreeMap<&str, u64> = layout.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.bytes)).collect();
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
