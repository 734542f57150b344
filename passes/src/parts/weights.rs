//! Shares of constants, made before the model runs, so that no node slices weights at run time.

use std::ops::Range;

use memc_ir::{ConstData, ConstOrigin, Dim, Payload};

use crate::pass::PassContext;

/// Maker of shares of constants.
#[derive(Clone, Debug)]
pub struct Weights<'c, 'o> {
    ctx: &'c PassContext<'o>,
    /// Whether this is a trial, in which only the types of shares matter, not their bytes.
    is_trial: bool,
    /// Bytes that may still be copied.
    left: u64,
}

impl<'c, 'o> Weights<'c, 'o> {
    /// Makes shares with their bytes.
    pub fn new(ctx: &'c PassContext<'o>) -> Self {
        Self { ctx, is_trial: false, left: ctx.options.max_weight_bytes.0 }
    }

    /// Makes shares of which only the types matter.
    pub fn on_trial(ctx: &'c PassContext<'o>) -> Self {
        Self { is_trial: true, ..Self::new(ctx) }
    }

    /// Returns whether shares along an axis can be made in advance: they are contiguous, or the
    /// constant's bytes can be read.
    pub fn are_at_hand(&self, constant: &ConstData, axis: usize) -> bool {
        let is_one_piece =
            || constant.ty.known_dims().is_some_and(|dims| dims.iter().take(axis).all(|extent| *extent == 1));
        is_one_piece() || self.ctx.bytes_of(constant).is_some()
    }

    /// Returns a share of a constant: these positions along an axis.
    ///
    /// `None` if the share's bytes are needed but cannot be read, or exceed the bytes that may still be
    /// copied. A contiguous share is neither copied nor read. Linear in the bytes of the share.
    pub fn share(&mut self, constant: &ConstData, axis: usize, positions: Range<u64>) -> Option<ConstData> {
        let dims = constant.ty.known_dims()?;
        let extent = dims.get(axis).filter(|extent| **extent > 0 && positions.end <= **extent)?;
        let product =
            |dims: &[u64]| dims.iter().try_fold(1u64, |product, extent| product.checked_mul(*extent));
        let position = constant.ty.position_bytes(axis)?;
        let (rows, run) = (product(&dims[..axis])?, position.checked_mul(*extent)?);
        let (count, mut ty) = (positions.end.checked_sub(positions.start)?, constant.ty.clone());
        *ty.shape.as_mut()?.get_mut(axis)? = Dim::Known(count);
        let (start, own) = (position * positions.start, position * count);
        let payload = match &constant.payload {
            Payload::External { location, offset, .. } if rows == 1 => Payload::External {
                location: location.clone(),
                offset: offset.checked_add(start)?,
                length: Some(own),
            },
            _ => self.copied(constant, [rows, run, start, own])?,
        };
        Some(ConstData { ty, payload, origin: ConstOrigin::New })
    }

    /// Copies `own` bytes from offset `start` of each of `rows` runs of `run` bytes. A single run is
    /// referenced without a copy.
    fn copied(&mut self, constant: &ConstData, [rows, run, start, own]: [u64; 4]) -> Option<Payload> {
        let bytes = self.ctx.bytes_of(constant)?;
        let size = |number: u64| usize::try_from(number).ok();
        if rows == 1 {
            return Some(Payload::Raw(bytes.slice(size(start)?..size(start + own)?)));
        }
        self.left = self.left.checked_sub(rows.checked_mul(own)?)?;
        if self.is_trial {
            return Some(Payload::Elided);
        }
        let mut raw = Vec::with_capacity(size(rows * own)?);
        for row in 0..rows {
            let from = row * run + start;
            raw.extend_from_slice(bytes.get(size(from)?..size(from + own)?)?);
        }
        Some(Payload::Raw(raw.into()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use memc_ir::{ElementType, SecondaryMap, TensorType};

    use super::*;
    use crate::options::Options;

    fn share(payload: Payload, axis: usize, part: u64, is_trial: bool) -> Option<Payload> {
        let options = Options::default();
        let ctx = PassContext::new(&options, SecondaryMap::default());
        let ty = TensorType::fixed(ElementType::Uint8, &[2, 4]);
        let constant = ConstData { ty, payload, origin: ConstOrigin::New };
        let mut weights = if is_trial { Weights::on_trial(&ctx) } else { Weights::new(&ctx) };
        let (expected, count): ([u64; 2], u64) = if axis == 0 { ([1, 4], 1) } else { ([2, 2], 2) };
        let found = weights.share(&constant, axis, count * part..count * (part + 1))?;
        assert_eq!(found.ty.known_dims().unwrap(), expected);
        Some(found.payload)
    }

    fn raw(bytes: &'static [u8]) -> Payload {
        Payload::Raw(bytes::Bytes::from_static(bytes))
    }

    #[test]
    fn rows_and_columns_of_bytes_at_hand() {
        let whole = || raw(&[0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(share(whole(), 0, 1, false), Some(raw(&[4, 5, 6, 7])));
        assert_eq!(share(whole(), 1, 0, false), Some(raw(&[0, 1, 4, 5])));
        assert_eq!(share(whole(), 1, 1, false), Some(raw(&[2, 3, 6, 7])));
        assert_eq!(share(whole(), 1, 1, true), Some(Payload::Elided));
        assert_eq!(share(raw(&[0, 1]), 0, 0, false), None);
    }

    #[test]
    fn rows_of_another_file_are_named_and_columns_need_its_bytes() {
        let whole = || Payload::External { location: "w".to_owned(), offset: 16, length: Some(8) };
        let rows = |offset| Payload::External { location: "w".to_owned(), offset, length: Some(4) };
        assert_eq!(share(whole(), 0, 0, false), Some(rows(16)));
        assert_eq!(share(whole(), 0, 1, false), Some(rows(20)));
        assert_eq!(share(whole(), 1, 0, false), None);
        assert_eq!(share(whole(), 1, 0, true), None);
    }
}
