//! Classical machine learning (domain `ai.onnx.ml`): encoders, linear models, support vectors, trees.

use memc_ir::{Attribute, Dim, ElementType, TensorType, ValueType};

use super::contrib_rules::{extent, like_first};
use crate::algebra::Algebra;
use crate::context::{Infer, InferError};
use crate::fact::Fact;
use crate::info::{InferFn, OpInfo, SplitAxes, Work};

const ML: &str = "ai.onnx.ml";

/// Returns the number of elements of a list or tensor attribute; `None` if it is absent.
fn list_length(ctx: &Infer<'_>, name: &str) -> Option<u64> {
    match ctx.node().attribute(name)? {
        Attribute::Ints(values) => Some(values.len() as u64),
        Attribute::Floats(values) => Some(values.len() as u64),
        Attribute::Strings(values) => Some(values.len() as u64),
        Attribute::Tensor(_) => ctx.tensor_attribute(name)?.ty.elements(),
        _ => None,
    }
}

/// Returns the number of rows of operand 0; a vector is one row.
fn rows(ctx: &Infer<'_>) -> Dim {
    match ctx.dims(0) {
        Some([_]) => Dim::Known(1),
        Some([rows, _]) => rows.clone(),
        _ => Dim::Unknown,
    }
}

/// Returns the type of the class labels, and their number.
fn labels(ctx: &Infer<'_>, integers: &str) -> (ElementType, Option<u64>) {
    match list_length(ctx, "classlabels_strings").filter(|count| *count > 0) {
        Some(count) => (ElementType::String, Some(count)),
        None => (ElementType::Int64, list_length(ctx, integers)),
    }
}

/// States the best class of each row, and the scores of `columns` classes.
fn set_classes(ctx: &mut Infer<'_>, label: ElementType, columns: Option<u64>) -> Result<(), InferError> {
    ctx.required(0)?;
    let rows = rows(ctx);
    ctx.set_dims(0, label, vec![rows.clone()]);
    ctx.set_dims(1, ElementType::Float, vec![rows, columns.map_or(Dim::Unknown, Dim::Known)]);
    Ok(())
}

fn linear_classifier(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let (label, count) = labels(ctx, "classlabels_ints");
    // Without labels there is one class per intercept.
    set_classes(ctx, label, count.or_else(|| list_length(ctx, "intercepts")))
}

/// Infers SVMClassifier. Without probabilities, support vectors vote in pairs of classes.
fn vector_classifier(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let (label, count) = labels(ctx, "classlabels_ints");
    let votes =
        list_length(ctx, "prob_a").unwrap_or(0) == 0 && list_length(ctx, "support_vectors").unwrap_or(0) > 0;
    let columns = count.and_then(|count| match count {
        3.. if votes => count.checked_mul(count - 1).map(|pairs| pairs / 2),
        0..=2 if votes => Some(2),
        count => Some(count),
    });
    set_classes(ctx, label, columns)
}

fn tree_classifier(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let (label, count) = labels(ctx, "classlabels_int64s");
    set_classes(ctx, label, count)
}

/// States a result `[rows, targets]`.
fn set_targets(ctx: &mut Infer<'_>, element: ElementType, targets: Dim) -> Result<(), InferError> {
    ctx.required(0)?;
    let rows = rows(ctx);
    ctx.set_dims(0, element, vec![rows, targets]);
    Ok(())
}

/// Returns an integer attribute as an extent; 1 if it is absent.
fn counted(ctx: &Infer<'_>, name: &str) -> Dim {
    extent(ctx.int(name, 1))
}

fn linear_regressor(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    set_targets(ctx, ElementType::Float, counted(ctx, "targets"))
}

fn vector_regressor(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    set_targets(ctx, ElementType::Float, Dim::Known(1))
}

fn tree_regressor(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    set_targets(ctx, ElementType::Float, counted(ctx, "n_targets"))
}

fn trees(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    set_targets(ctx, ctx.element(0), counted(ctx, "n_targets"))
}

fn as_float(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let shape = ctx.shape(0);
    ctx.set_tensor(0, ElementType::Float, shape);
    Ok(())
}

/// Infers ArrayFeatureExtractor: the last axis has one element per index.
fn extract_features(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(1)?;
    let count = match ctx.dims(1) {
        Some(dims) => dims.iter().fold(Dim::Known(1), |product, dim| product.mul(dim)),
        None => Dim::Unknown,
    };
    let shape = ctx.shape(0).map(|mut dims| {
        dims.pop();
        if dims.is_empty() {
            dims.push(Dim::Known(1));
        }
        dims.push(count);
        dims
    });
    ctx.set_tensor(0, ctx.element(0), shape);
    Ok(())
}

fn cast_map(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = match ctx.string("cast_to") {
        Some("TO_STRING") => ElementType::String,
        Some("TO_INT64") => ElementType::Int64,
        _ => ElementType::Float,
    };
    let sparse = ctx.string("map_form") == Some("SPARSE");
    let columns = if sparse { counted(ctx, "max_map") } else { Dim::Unknown };
    ctx.set_dims(0, element, vec![Dim::Known(1), columns]);
    Ok(())
}

/// Infers CategoryMapper: strings become integers, integers become strings.
fn category(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = match ctx.element(0) {
        ElementType::String => ElementType::Int64,
        ElementType::Int64 => ElementType::String,
        _ => ElementType::Undefined,
    };
    let shape = ctx.shape(0);
    ctx.set_tensor(0, element, shape);
    Ok(())
}

/// Infers LabelEncoder: the element type of its list of values. Version 1 supports only strings and
/// integers.
fn label(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let listed = [
        ("values_strings", ElementType::String),
        ("values_int64s", ElementType::Int64),
        ("values_floats", ElementType::Float),
    ];
    let tensor = ctx.tensor_attribute("values_tensor").map(|constant| constant.ty.element);
    let lists = listed.into_iter().find(|(name, _)| list_length(ctx, name).is_some_and(|count| count > 0));
    let Some(element) = tensor.or(lists.map(|(_, element)| element)) else { return category(ctx) };
    ctx.required(0)?;
    let shape = ctx.shape(0);
    ctx.set_tensor(0, element, shape);
    Ok(())
}

fn dictionary(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let element = match &ctx.required(0)?.ty {
        ValueType::Map(_, value) => value.tensor().map_or(ElementType::Undefined, |ty| ty.element),
        _ => ElementType::Undefined,
    };
    let words = list_length(ctx, "string_vocabulary").or_else(|| list_length(ctx, "int64_vocabulary"));
    ctx.set_dims(0, element, vec![Dim::Known(1), words.map_or(Dim::Unknown, Dim::Known)]);
    Ok(())
}

/// Infers FeatureVectorizer: the concatenated features of each row; attribute `inputdimensions` gives
/// their numbers.
fn features(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let width = match ctx.ints("inputdimensions") {
        Some(widths) => widths.iter().try_fold(0i64, |sum, width| sum.checked_add(*width)),
        None => None,
    };
    set_targets(ctx, ElementType::Float, width.map_or(Dim::Unknown, extent))
}

fn one_hot(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let count = list_length(ctx, "cats_int64s")
        .filter(|count| *count > 0)
        .or_else(|| list_length(ctx, "cats_strings"));
    let shape = ctx.shape(0).map(|mut dims| {
        dims.push(count.map_or(Dim::Unknown, Dim::Known));
        dims
    });
    ctx.set_tensor(0, ElementType::Float, shape);
    Ok(())
}

/// Infers ZipMap: one map from labels to scores for each row.
fn zip_map(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let (key, _) = labels(ctx, "classlabels_int64s");
    let score = ValueType::Tensor(TensorType::new(ElementType::Float, Vec::new()));
    ctx.set(0, Fact::of(ValueType::Sequence(Box::new(ValueType::Map(key, Box::new(score))))));
    Ok(())
}

const fn ml(name: &'static str, infer: InferFn, work: u32) -> OpInfo {
    OpInfo::of(ML, name, infer).work(Work::PerInputElement(work))
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    ml("ArrayFeatureExtractor", extract_features, 0).work(Work::None),
    ml("Binarizer", like_first, 1).algebra(Algebra::FINITE_AT_ZERO).split(SplitAxes::All),
    ml("CastMap", cast_map, 1),
    ml("CategoryMapper", category, 10).algebra(Algebra::NONE).split(SplitAxes::All),
    ml("DictVectorizer", dictionary, 10),
    ml("FeatureVectorizer", features, 1),
    ml("Imputer", like_first, 1),
    ml("LabelEncoder", label, 10).algebra(Algebra::NONE).split(SplitAxes::All),
    ml("LinearClassifier", linear_classifier, 20),
    ml("LinearRegressor", linear_regressor, 10),
    ml("Normalizer", as_float, 4),
    ml("OneHotEncoder", one_hot, 10),
    ml("SVMClassifier", vector_classifier, 1000),
    ml("SVMRegressor", vector_regressor, 1000),
    ml("Scaler", as_float, 2),
    ml("TreeEnsemble", trees, 1000),
    ml("TreeEnsembleClassifier", tree_classifier, 1000),
    ml("TreeEnsembleRegressor", tree_regressor, 1000),
    ml("ZipMap", zip_map, 10),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::testing::Case;

    fn case(name: &str) -> Case {
        Case::of(ML, name, 5)
    }

    fn floats(case: Case, name: &str, count: usize) -> Case {
        case.attribute(name, Attribute::Floats(vec![0.0; count]))
    }

    fn strings(case: Case, name: &str, values: &[&'static str]) -> Case {
        let values = values.iter().map(|text| text.as_bytes().into()).collect();
        case.attribute(name, Attribute::Strings(values))
    }

    #[test]
    fn encoders() {
        assert_eq!(case("ArrayFeatureExtractor").input("f32[2,3,5]").input("i64[1,4]").show(), "f32[2,3,4]");
        assert_eq!(case("ArrayFeatureExtractor").input("f32[5]").input("i64[4]").show(), "f32[1,4]");
        assert_eq!(
            case("OneHotEncoder").input("i64[4,3]").ints("cats_int64s", &[1, 2, 3, 4, 5]).show(),
            "f32[4,3,5]"
        );
        assert_eq!(case("CategoryMapper").input("string[N]").show(), "i64[N]");
        assert_eq!(case("LabelEncoder").input("string[4,3]").ints("values_int64s", &[1]).show(), "i64[4,3]");
        assert_eq!(floats(case("LabelEncoder").input("i64[4,3]"), "values_floats", 1).show(), "f32[4,3]");
        assert_eq!(
            case("LabelEncoder").input("i64[4]").tensor("values_tensor", "f64[1]", &[0; 8]).show(),
            "f64[4]"
        );
        assert_eq!(
            strings(Case::of(ML, "LabelEncoder", 1).input("string[4]"), "classes_strings", &["a"]).show(),
            "i64[4]"
        );
        assert_eq!(case("Normalizer").input("i64[4,3]").show(), "f32[4,3]");
    }

    #[test]
    fn vectors_of_features() {
        let two = |first: &str, widths: &[i64]| {
            case("FeatureVectorizer").input(first).input(first).ints("inputdimensions", widths)
        };
        assert_eq!(two("f64[N,3]", &[3, 4]).show(), "f32[N,7]");
        assert_eq!(two("f64[3]", &[3, 4]).show(), "f32[1,7]");
        assert_eq!(two("f64[3]", &[i64::MAX, 4]).show(), "f32[1,?]");
        let sparse = case("CastMap").input("unknown").string("map_form", "SPARSE").int("max_map", 7);
        assert_eq!(sparse.string("cast_to", "TO_INT64").show(), "i64[1,7]");
        let words = strings(case("DictVectorizer").input("unknown"), "string_vocabulary", &["a", "b"]);
        assert_eq!(words.show(), "?[1,2]");
    }

    #[test]
    fn classifiers_state_labels_and_scores() {
        let two = |case: Case| case.outputs(2).show_all();
        assert_eq!(
            two(case("LinearClassifier").input("f32[N,3]").ints("classlabels_ints", &[0, 1])),
            "i64[N]; f32[N,2]"
        );
        assert_eq!(
            two(floats(case("LinearClassifier").input("f32[N,3]"), "intercepts", 4)),
            "i64[N]; f32[N,4]"
        );
        let labeled =
            strings(case("TreeEnsembleClassifier").input("f32[4,3]"), "classlabels_strings", &["a", "b"]);
        assert_eq!(two(labeled), "string[4]; f32[4,2]");
        let vectors = |labels: &[i64]| {
            floats(
                case("SVMClassifier").input("f32[4,3]").ints("classlabels_ints", labels),
                "support_vectors",
                12,
            )
        };
        assert_eq!(two(vectors(&[0, 1, 2, 3])), "i64[4]; f32[4,6]");
        assert_eq!(two(vectors(&[0])), "i64[4]; f32[4,2]");
        assert_eq!(two(floats(vectors(&[0, 1, 2, 3]), "prob_a", 6)), "i64[4]; f32[4,4]");
        assert_eq!(case("ZipMap").input("f32[2,3]").show(), "seq<map<i64,f32[]>>");
    }

    #[test]
    fn regressors_state_targets() {
        assert_eq!(case("LinearRegressor").input("f64[3]").int("targets", 2).show(), "f32[1,2]");
        assert_eq!(case("SVMRegressor").input("f32[N,3]").show(), "f32[N,1]");
        assert_eq!(case("TreeEnsemble").input("f64[N,3]").int("n_targets", 5).show(), "f64[N,5]");
        assert_eq!(case("TreeEnsembleRegressor").input("f32[N,3]").int("n_targets", -5).show(), "f32[N,?]");
        assert_eq!(case("TreeEnsembleRegressor").show(), "error: operand 0 is missing");
    }
}
