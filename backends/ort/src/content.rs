//! Content of a runtime value of any kind: an array, strings, a sequence, a map, or nothing.

use std::collections::BTreeMap;
use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::arrays::{Array, TensorView, hex};
use crate::error::Error;

/// Content of a value.
#[derive(Debug)]
pub enum Content<'v> {
    /// An array with borrowed elements.
    View(TensorView<'v>),
    /// An array that owns its elements.
    Array(Array),
    /// A tensor of strings, which may hold any bytes.
    Strings {
        /// Dimensions.
        shape: Vec<u64>,
        /// The strings, in row-major order.
        elements: Vec<Vec<u8>>,
    },
    /// Values in order.
    Sequence(Vec<Content<'v>>),
    /// Keys, and the value of each key at its position.
    Map(Box<(Content<'v>, Content<'v>)>),
    /// An optional that holds nothing.
    None,
    /// A value whose elements the runtime does not give out; the text describes its kind.
    Unread(&'static str),
}

impl<'v> From<TensorView<'v>> for Content<'v> {
    fn from(view: TensorView<'v>) -> Self {
        Self::View(view)
    }
}

impl Content<'_> {
    /// Returns the array, or `None` for any other content.
    pub fn tensor(&self) -> Option<TensorView<'_>> {
        match self {
            Self::View(view) => Some(view.clone()),
            Self::Array(array) => Some(array.view()),
            _ => None,
        }
    }

    /// Returns this content with owned elements.
    ///
    /// # Errors
    /// The system has no memory for the copy.
    pub fn into_owned(self) -> Result<Content<'static>, Error> {
        Ok(match self {
            Self::View(view) => Content::Array(Array::of(&view)?),
            Self::Array(array) => Content::Array(array),
            Self::Strings { shape, elements } => Content::Strings { shape, elements },
            Self::Sequence(items) => {
                Content::Sequence(items.into_iter().map(Self::into_owned).collect::<Result<_, _>>()?)
            }
            Self::Map(pair) => Content::Map(Box::new((pair.0.into_owned()?, pair.1.into_owned()?))),
            Self::None => Content::None,
            Self::Unread(kind) => Content::Unread(kind),
        })
    }

    /// Returns all arrays of the content with the names that comparisons use: the given name for an
    /// array, and `y[2]`, `y.keys` and `y.values` for arrays inside sequences and maps.
    pub fn arrays(&self, name: &str) -> Vec<(String, TensorView<'_>)> {
        match self {
            Self::Sequence(items) => {
                let named = items
                    .iter()
                    .enumerate()
                    .map(|(position, item)| item.arrays(&format!("{name}[{position}]")));
                named.flatten().collect()
            }
            Self::Map(pair) => {
                [pair.0.arrays(&format!("{name}.keys")), pair.1.arrays(&format!("{name}.values"))].concat()
            }
            _ => self.tensor().map(|view| (name.to_owned(), view)).into_iter().collect(),
        }
    }

    /// Returns the kind of the content, or of an item in it, whose elements the runtime does not give
    /// out; `None` if all elements are readable.
    pub fn unread(&self) -> Option<&'static str> {
        match self {
            Self::Unread(kind) => Some(kind),
            Self::Sequence(items) => items.iter().find_map(Self::unread),
            Self::Map(pair) => pair.0.unread().or_else(|| pair.1.unread()),
            Self::View(_) | Self::Array(_) | Self::Strings { .. } | Self::None => None,
        }
    }

    /// Adds the content to a hash. The numbers of other kinds are above those of element types, so
    /// arrays cannot be confused with them.
    fn add_to(&self, hash: &mut Sha256) {
        let mut begin = |kind: i32, count: usize| {
            hash.update(kind.to_le_bytes());
            hash.update((count as u64).to_le_bytes());
        };
        match self {
            Self::View(_) | Self::Array(_) => {
                let Some(array) = self.tensor() else { return };
                begin(array.element.onnx(), array.shape.len());
                array.shape.iter().for_each(|extent| hash.update(extent.to_le_bytes()));
                match array.unpacked() {
                    Some(elements) => hash.update(elements),
                    None => hash.update(array.bytes),
                }
            }
            Self::Strings { shape, elements } => {
                begin(1000, shape.len());
                shape.iter().for_each(|extent| hash.update(extent.to_le_bytes()));
                for text in elements {
                    hash.update((text.len() as u64).to_le_bytes());
                    hash.update(text);
                }
            }
            Self::Sequence(items) => {
                begin(1001, items.len());
                items.iter().for_each(|item| item.add_to(hash));
            }
            Self::Map(pair) => {
                begin(1002, 2);
                pair.0.add_to(hash);
                pair.1.add_to(hash);
            }
            Self::None => begin(1003, 0),
            Self::Unread(kind) => {
                begin(1004, kind.len());
                hash.update(kind);
            }
        }
    }
}

/// Describes the content: `float[2, 3]`, `none`, `a sequence of 2: float[3], float[4]`.
impl fmt::Display for Content<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Largest number of items of a sequence that are described.
        const MAX_NAMED: usize = 4;
        match self {
            Self::View(TensorView { element, shape, .. }) | Self::Array(Array { element, shape, .. }) => {
                write!(f, "{}{shape:?}", element.name())
            }
            Self::Strings { shape, .. } => write!(f, "string{shape:?}"),
            Self::Sequence(items) => {
                write!(f, "a sequence of {}", items.len())?;
                for (position, item) in items.iter().take(MAX_NAMED).enumerate() {
                    write!(f, "{}{item}", if position == 0 { ": " } else { ", " })?;
                }
                f.write_str(if items.len() > MAX_NAMED { ", and so on" } else { "" })
            }
            Self::Map(pair) => write!(f, "a map of {} to {}", pair.0, pair.1),
            Self::None => f.write_str("none"),
            Self::Unread(kind) => f.write_str(kind),
        }
    }
}

/// Returns the SHA-256 of names and contents in lower-case hexadecimal; equal results give equal
/// digests.
pub fn digest(contents: &BTreeMap<String, Content<'_>>) -> String {
    let mut hash = Sha256::new();
    for (name, content) in contents {
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
        content.add_to(&mut hash);
    }
    hex(&hash.finalize())
}

/// Borrows arrays as contents, by name.
pub fn views(arrays: &BTreeMap<String, Array>) -> BTreeMap<String, Content<'_>> {
    arrays.iter().map(|(name, array)| (name.clone(), Content::View(array.view()))).collect()
}
