//! Test of the grammar page: its example is a valid module in canonical form.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use memc_ir::text::{parse, print};
use memc_ir::verify;

#[test]
fn the_example_of_the_grammar_page_is_canonical_and_verifies() {
    let page = include_str!("../../doc/text.md");
    let example = page.split("```mem\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let module = parse(example).unwrap();
    assert_eq!(print(&module), example);
    verify(&module, module.stage).unwrap();
}
