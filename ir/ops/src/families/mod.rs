//! The operator families, one file each.

pub mod activation;
pub(crate) mod arithmetic;
pub mod attention;
pub(crate) mod axes;
pub(crate) mod broadcasting;
pub mod cast;
pub mod compare;
pub mod constant;
pub mod contrib_activation;
pub mod contrib_attention;
pub mod contrib_convolution;
pub mod contrib_data;
pub mod contrib_generation;
pub mod contrib_nchwc;
pub mod contrib_normalization;
pub mod contrib_product;
pub mod contrib_quantized;
pub(crate) mod contrib_rules;
pub(crate) mod contrib_workspace;
pub mod control_flow;
pub(crate) mod conv_workspace;
pub mod convolution;
pub mod detection;
pub(crate) mod dims;
pub mod einsum;
pub mod elementwise;
#[cfg(test)]
mod fuzzing;
pub mod gather;
pub mod gradient;
#[cfg(test)]
mod hostile;
pub(crate) mod iteration;
pub(crate) mod join;
pub mod joining;
pub(crate) mod lanes;
pub mod loss;
pub mod math;
pub mod matrix;
pub mod memory;
pub mod ml;
pub mod normalization;
pub mod optimizer;
pub mod pooling;
pub mod quantization;
pub mod random;
pub mod rearrange;
pub mod recurrent;
mod recurrent_workspace;
pub mod reduce;
pub mod reshape;
pub mod resize;
pub mod sampling;
pub(crate) mod scan;
pub mod scatter;
pub mod searching;
pub mod sequence;
pub mod shape;
pub mod signal;
pub mod slicing;
pub mod softmax;
#[cfg(test)]
pub(crate) mod testing;
pub mod text;
pub mod training;
pub(crate) mod window;

use crate::info::OpInfo;

/// All families, in alphabetical order of their files.
pub(crate) const FAMILIES: &[&[OpInfo]] = &[
    activation::OPERATORS,
    attention::OPERATORS,
    cast::OPERATORS,
    compare::OPERATORS,
    constant::OPERATORS,
    contrib_activation::OPERATORS,
    contrib_attention::OPERATORS,
    contrib_convolution::OPERATORS,
    contrib_data::OPERATORS,
    contrib_generation::OPERATORS,
    contrib_nchwc::OPERATORS,
    contrib_normalization::OPERATORS,
    contrib_product::OPERATORS,
    contrib_quantized::OPERATORS,
    control_flow::OPERATORS,
    convolution::OPERATORS,
    detection::OPERATORS,
    einsum::OPERATORS,
    elementwise::OPERATORS,
    gather::OPERATORS,
    gradient::OPERATORS,
    joining::OPERATORS,
    loss::OPERATORS,
    math::OPERATORS,
    matrix::OPERATORS,
    memory::OPERATORS,
    ml::OPERATORS,
    normalization::OPERATORS,
    optimizer::OPERATORS,
    pooling::OPERATORS,
    quantization::OPERATORS,
    random::OPERATORS,
    rearrange::OPERATORS,
    recurrent::OPERATORS,
    reduce::OPERATORS,
    reshape::OPERATORS,
    resize::OPERATORS,
    sampling::OPERATORS,
    scatter::OPERATORS,
    searching::OPERATORS,
    sequence::OPERATORS,
    shape::OPERATORS,
    signal::OPERATORS,
    slicing::OPERATORS,
    softmax::OPERATORS,
    text::OPERATORS,
    training::OPERATORS,
];
