//! Strings, n-grams, and decoding of images.

use memc_ir::{Attribute, Dim, ElementType};

use crate::context::{Infer, InferError};
use crate::families::broadcasting::broadcast_shapes;
use crate::families::dims::require_rank;
use crate::info::{OpInfo, Work};

fn concat(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    broadcast_shapes(ctx, ElementType::String)
}

/// Infers StringNormalizer: it removes stop words from the last axis.
fn normalize(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let removes =
        matches!(ctx.node().attribute("stopwords"), Some(Attribute::Strings(words)) if !words.is_empty());
    let shape = match ctx.shape(0) {
        Some(dims) if dims.is_empty() || dims.len() > 2 => {
            return Err(InferError::BadOperand {
                operand: 0,
                why: format!("rank {} is neither 1 nor 2", dims.len()),
            });
        }
        Some(mut dims) => {
            if let Some(last) = dims.last_mut().filter(|_| removes) {
                *last = Dim::Unknown;
            }
            Some(dims)
        }
        None => None,
    };
    ctx.set_tensor(0, ElementType::String, shape);
    Ok(())
}

/// Infers StringSplit. Results: substrings along a new last axis, and the number of substrings of each
/// element.
fn split(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let shape = ctx.shape(0);
    let longer = shape.clone().map(|mut dims| {
        dims.push(Dim::Unknown);
        dims
    });
    ctx.set_tensor(0, ElementType::String, longer);
    ctx.set_tensor(1, ElementType::Int64, shape);
    Ok(())
}

fn regex_full_match(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.set_tensor(0, ElementType::Bool, ctx.shape(0));
    Ok(())
}

/// Infers TfIdfVectorizer: the result extends to the highest coordinate of any n-gram.
fn tf_idf(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let name = "ngram_indexes";
    let indexes = ctx.ints(name).ok_or(InferError::MissingAttribute { name })?;
    let highest = indexes.iter().copied().max().unwrap_or(-1);
    let places = highest.checked_add(1).and_then(|places| u64::try_from(places).ok());
    let places =
        places.ok_or_else(|| InferError::BadAttribute { name, why: format!("{highest} is out of range") })?;
    let shape = match ctx.dims(0) {
        Some([] | [_]) => Some(vec![Dim::Known(places)]),
        Some([batch, _]) => Some(vec![batch.clone(), Dim::Known(places)]),
        Some(dims) => {
            return Err(InferError::BadOperand {
                operand: 0,
                why: format!("rank {} is above 2", dims.len()),
            });
        }
        None => None,
    };
    ctx.set_tensor(0, ElementType::Float, shape);
    Ok(())
}

fn decode_image(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    require_rank(ctx, 0, 1)?;
    let channels = if ctx.string("pixel_format") == Some("Grayscale") { 1 } else { 3 };
    ctx.set_dims(0, ElementType::Uint8, vec![Dim::Unknown, Dim::Unknown, Dim::Known(channels)]);
    Ok(())
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    OpInfo::onnx("ImageDecoder", decode_image).work(Work::PerElement(50)),
    OpInfo::onnx("RegexFullMatch", regex_full_match).work(Work::PerElement(100)),
    OpInfo::onnx("StringConcat", concat).work(Work::PerElement(20)),
    OpInfo::onnx("StringNormalizer", normalize).work(Work::PerInputElement(100)),
    OpInfo::onnx("StringSplit", split).work(Work::PerInputElement(100)),
    OpInfo::onnx("TfIdfVectorizer", tf_idf).work(Work::PerInputElement(20)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::testing::Case;

    #[test]
    fn shapes() {
        assert_eq!(
            Case::new("StringConcat", 20).input("string[N,1]").input("string[3]").show(),
            "string[N,3]"
        );
        assert_eq!(
            Case::new("StringSplit", 20).input("string[N]").outputs(2).show_all(),
            "string[N,?]; i64[N]"
        );
        assert_eq!(Case::new("RegexFullMatch", 20).input("string[N,2]").show(), "bool[N,2]");
        assert_eq!(Case::new("StringNormalizer", 10).input("string[1,4]").show(), "string[1,4]");
        let words = Attribute::Strings(vec!["the".into()]);
        assert_eq!(
            Case::new("StringNormalizer", 10).input("string[1,4]").attribute("stopwords", words).show(),
            "string[1,?]"
        );
        assert_eq!(
            Case::new("TfIdfVectorizer", 9).input("i64[N,9]").ints("ngram_indexes", &[0, 6, 2]).show(),
            "f32[N,7]"
        );
        assert!(
            Case::new("TfIdfVectorizer", 9)
                .input("i64[9]")
                .ints("ngram_indexes", &[i64::MAX])
                .show()
                .starts_with("error")
        );
        assert_eq!(
            Case::new("ImageDecoder", 20).input("u8[?]").string("pixel_format", "Grayscale").show(),
            "u8[?,?,1]"
        );
    }
}
