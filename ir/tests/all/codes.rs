//! Tests of the diagnostic codes: the table is complete, sorted and readable.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::Path;

use memc_ir::codes::{all, explain};

/// Collects all `"E0123"` and `"W0123"` in Rust files below a folder.
fn codes_below(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            codes_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            for part in text.split('"') {
                let is_code = part.len() == 5
                    && part.starts_with(['E', 'W'])
                    && part[1..].bytes().all(|byte| byte.is_ascii_digit());
                if is_code {
                    found.insert(part.to_owned());
                }
            }
        }
    }
}

#[test]
fn every_code_that_the_crate_uses_is_explained() {
    let mut used = BTreeSet::new();
    codes_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut used);
    assert!(used.contains("E0242") && used.contains("E0601"), "{used:?}");
    let unknown: Vec<_> = used.iter().filter(|code| explain(code).is_none()).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn codes_are_sorted_and_pages_are_whole() {
    let codes: Vec<&str> = all().iter().map(|info| info.code).collect();
    let (errors, warnings): (Vec<&str>, Vec<&str>) = codes.iter().partition(|code| code.starts_with('E'));
    assert!(errors.is_sorted_by(|a, b| a < b) && warnings.is_sorted_by(|a, b| a < b));
    assert_eq!([errors, warnings].concat(), codes);
    for info in all() {
        let first = info.title.chars().next().unwrap();
        assert!(first.is_lowercase() || info.title.starts_with("an IR"), "{}", info.title);
        assert!(
            !info.title.ends_with('.') && info.title.len() < 80 && !info.title.contains('\n'),
            "{}",
            info.title
        );
        assert!(
            info.meaning.ends_with('.') && info.action.ends_with('.') && !info.example.is_empty(),
            "{}",
            info.code
        );
    }
}

#[test]
fn a_page_reads_like_this() {
    let page = explain("e0602").unwrap().to_string();
    assert_eq!(
        page,
        "E0602: a name is defined twice in the text\n\n\
         A value in its graph, a space, a domain or a dimension has two definitions.\n\n\
         Whose fault: the file that was given beside the model.\n\n\
         Example:\n\n    \
         %y = Relu(%x) : f32[4]\n    %y = Tanh(%x) : f32[4]\n\n\
         What to do: Rename one of the two.\n"
    );
    assert!(explain("E9999").is_none());
}
