//! Checks the canonical form of a layout's text: sorted keys without repetition, and one newline at the
//! end.

use std::fmt;

use memc_ir::{Diagnostic, Severity};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::codes::Kind;
use crate::findings::Violation;

/// Returns violations of the canonical form of a layout's text, at most one of each sort. Ignores text
/// that is not JSON: the reader reports it.
pub fn form(text: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut report = |message: String| {
        let diagnostic = Diagnostic::new(Kind::Form.code(), Severity::Error, message);
        found.push(Violation { kind: Kind::Form, tensor: None, step: None, diagnostic });
    };
    if !text.ends_with("}\n") {
        report("the file does not end with one newline after the last brace".to_owned());
    }
    if let Ok(Shape { unsorted: Some(key) }) = serde_json::from_str::<Shape>(text) {
        report(format!("the key `{key}` occurs twice, or after a key that it sorts before"));
    }
    found
}

/// First key that is out of order anywhere in a JSON value. Everything else is dropped while parsing.
struct Shape {
    unsorted: Option<String>,
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShapeVisitor)
    }
}

struct ShapeVisitor;

const LEAF: Shape = Shape { unsorted: None };

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_bool<E>(self, _: bool) -> Result<Shape, E> {
        Ok(LEAF)
    }
    fn visit_i64<E>(self, _: i64) -> Result<Shape, E> {
        Ok(LEAF)
    }
    fn visit_u64<E>(self, _: u64) -> Result<Shape, E> {
        Ok(LEAF)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Shape, E> {
        Ok(LEAF)
    }
    fn visit_str<E>(self, _: &str) -> Result<Shape, E> {
        Ok(LEAF)
    }
    fn visit_unit<E>(self) -> Result<Shape, E> {
        Ok(LEAF)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Shape, A::Error> {
        let mut unsorted = None;
        while let Some(item) = items.next_element::<Shape>()? {
            unsorted = unsorted.or(item.unsorted);
        }
        Ok(Shape { unsorted })
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Shape, A::Error> {
        let mut unsorted = None;
        let mut last: Option<String> = None;
        while let Some((key, value)) = entries.next_entry::<String, Shape>()? {
            unsorted = unsorted.or(value.unsorted);
            if unsorted.is_none() && last.as_ref().is_some_and(|last| *last >= key) {
                unsorted = Some(key.clone());
            }
            last = Some(key);
        }
        Ok(Shape { unsorted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_text_passes_and_each_departure_is_found() {
        assert!(form("{\"a\": [{\"b\": 1, \"c\": null}], \"d\": 1.5}\n").is_empty());
        assert_eq!(form("{\"a\": 1}").len(), 1);
        assert_eq!(form("{\"a\": 1}\n\n").len(), 1);
        assert_eq!(form("{\"b\": 1, \"a\": 1}\n").len(), 1);
        assert_eq!(form("{\"a\": [{\"c\": true, \"b\": \"x\"}]}\n").len(), 1);
        assert_eq!(form("{\"a\": 1, \"a\": 2}\n").len(), 1);
    }
}
