//! What passes promise about their changes: one typed list from the passes to the layout, the checker
//! and the reports.

use memc_ir::{Bytes, ConstId};
use memc_rewrite::Replaced;

use crate::buffer::GrownCache;
use crate::encode::Form;

/// A promise of a pass about one of its changes, which the checker can verify from the files.
#[derive(Clone, PartialEq, Debug)]
pub enum Claim {
    /// Rules replaced a fragment by an equal form.
    Rewritten(Replaced),
    /// A value lies as a code between two uses.
    Encoded(Encoded),
    /// A matrix of weights is written in few bits.
    EncodedWeight(EncodedWeight),
    /// A cache is kept in one buffer.
    Cache(GrownCache),
}

/// The promises of all passes so far, in the order in which they were made.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Claims(Vec<Claim>);

impl Claims {
    /// Adds a promise.
    pub fn push(&mut self, claim: Claim) {
        self.0.push(claim);
    }

    /// Returns the rewritten fragments, in the order of rewriting.
    pub fn rewritten(&self) -> impl Iterator<Item = &Replaced> {
        self.0.iter().filter_map(|claim| if let Claim::Rewritten(found) = claim { Some(found) } else { None })
    }

    /// Returns the values that lie as codes between two uses, in the order of their decoding.
    pub fn encoded(&self) -> impl Iterator<Item = &Encoded> {
        self.0.iter().filter_map(|claim| if let Claim::Encoded(found) = claim { Some(found) } else { None })
    }

    /// Returns the matrices of weights that are written in few bits.
    pub fn encoded_weights(&self) -> impl Iterator<Item = &EncodedWeight> {
        self.0.iter().filter_map(|claim| if let Claim::EncodedWeight(found) = claim { Some(found) } else { None })
    }

    /// Returns the caches that are kept in one buffer.
    pub fn caches(&self) -> impl Iterator<Item = &GrownCache> {
        self.0.iter().filter_map(|claim| if let Claim::Cache(found) = claim { Some(found) } else { None })
    }

    /// Returns the caches that are kept in one buffer, for changes.
    pub fn caches_mut(&mut self) -> impl Iterator<Item = &mut GrownCache> {
        self.0.iter_mut().filter_map(|claim| if let Claim::Cache(found) = claim { Some(found) } else { None })
    }

    /// Returns whether rules replaced a fragment.
    pub fn has_rewritten(&self) -> bool {
        self.rewritten().next().is_some()
    }
}

impl Extend<Claim> for Claims {
    fn extend<T: IntoIterator<Item = Claim>>(&mut self, claims: T) {
        self.0.extend(claims);
    }
}

impl IntoIterator for Claims {
    type Item = Claim;
    type IntoIter = std::vec::IntoIter<Claim>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// A value that lies as a code between two uses, by the names of the values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Encoded {
    /// Name of the value.
    pub of: String,
    /// Names of its codes.
    pub codes: Vec<String>,
    /// Name of the value that is made from the codes.
    pub decoded: String,
    /// Kind of the code.
    pub form: Form,
}

/// A matrix of weights that was written in few bits.
#[derive(Clone, PartialEq, Debug)]
pub struct EncodedWeight {
    /// Name of the matrix.
    pub of: String,
    /// Name of the constant with the codes.
    pub codes: String,
    /// Name of the constant with the scales.
    pub scales: String,
    /// Bits of a code.
    pub bits: u32,
    /// Number of weights of a column that share a scale; `None` for whole columns.
    pub block: Option<u64>,
    /// Size of the matrix.
    pub before: Bytes,
    /// Size of codes and scales together.
    pub after: Bytes,
    /// The constant with all codes. Passes that split products may replace it by constants with some of
    /// them.
    pub whole: ConstId,
    /// Number of weights that are summed to one result, and number of results.
    pub extents: [u64; 2],
    /// Whether the weights of one result are neighbours.
    pub transposed: bool,
    /// Errors of all weights.
    pub errors: WeightErrors,
}

/// Sums over weights and their decoded numbers.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct WeightErrors {
    /// Sum of squared errors.
    pub errors: f64,
    /// Sum of squared weights.
    pub squares: f64,
    /// Largest error of one weight.
    pub largest: f64,
}

impl WeightErrors {
    /// Adds a weight with its decoded number.
    pub fn add(&mut self, number: f32, decoded: f32) {
        let error = f64::from(number) - f64::from(decoded);
        self.errors += error * error;
        self.squares += f64::from(number) * f64::from(number);
        self.largest = self.largest.max(error.abs());
    }

    /// Returns the root of the sum of squared errors, as a share of that of the squared weights.
    pub fn relative(self) -> f64 {
        if self.squares > 0.0 { (self.errors / self.squares).sqrt() } else { 0.0 }
    }
}
