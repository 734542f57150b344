//! Tests the page: well-formed, safe against hostile names, without network, and small.
#![allow(clippy::unwrap_used)]

use crate::plans;

use std::path::Path;

use memc_layout::Layout;
use memc_report::{HtmlOptions, html};
use serde_json::Value;

const OPEN: &str = "<script type=\"application/json\" id=\"plan\">";

/// Parses the JSON block of a page.
fn data(page: &str) -> Value {
    let (_, tail) = page.split_once(OPEN).unwrap();
    serde_json::from_str(tail.split_once("</script>").unwrap().0).unwrap()
}

/// Returns the script of a page.
fn script(page: &str) -> &str {
    page.rsplit_once("<script>").unwrap().1.split_once("</script>").unwrap().0
}

fn page(layout: &Layout) -> String {
    html(layout, &HtmlOptions { title: "model.onnx", before: None })
}

#[test]
fn the_data_is_the_plan() {
    let layout = plans::block();
    let data = data(&page(&layout));
    let plan = &data["plans"][0];
    assert_eq!(plan["steps"].as_array().unwrap().len(), layout.schedule.len());
    let placed = layout.tensors.iter().filter(|tensor| tensor.space.is_some()).count();
    let tensors = plan["tensors"].as_array().unwrap();
    assert_eq!(tensors.len(), placed);
    for row in tensors {
        let tensor = layout.tensors.iter().find(|tensor| tensor.name == row[0]).unwrap();
        assert_eq!((row[3].as_u64(), row[5].as_u64()), (Some(tensor.bytes), tensor.offset));
        assert_eq!([&row[6], &row[7]].map(|step| step.as_u64().unwrap()), <[u64; 2]>::from(tensor.live[0]));
    }
    insta::assert_snapshot!(serde_json::to_string_pretty(&plan["spaces"][1]).unwrap());
}

#[test]
fn hostile_names_are_text_everywhere() {
    let layout = plans::hostile();
    let page = html(
        &layout,
        &HtmlOptions { title: "</title><script>alert(1)</script>{{data}}", before: Some(&layout) },
    );
    let markup = |mark: &str| page.matches(mark).count();
    assert_eq!(
        (markup("<script"), markup("</script>"), markup("</title>"), markup("<img")),
        (2, 2, 1 + layout.pareto.len(), 0)
    );
    // The only comment comes from the template.
    assert_eq!((markup("<!--"), markup("\u{2028}")), (1, 0));
    let data = data(&page);
    let names: Vec<&str> =
        data["plans"][1]["tensors"].as_array().unwrap().iter().map(|row| row[0].as_str().unwrap()).collect();
    for tensor in layout.tensors.iter().filter(|tensor| tensor.space.is_some()) {
        assert!(names.contains(&tensor.name.as_str()), "{}", tensor.name);
    }
}

#[test]
fn encoded_values_are_on_the_page() {
    let text = page(&plans::encoded());
    assert!(
        text.contains("<h2>Encoded values</h2>") && text.contains("<td>bits</td><td class=\"num\">2</td>"),
        "{text}"
    );
    assert!(text.contains("<td>lossy</td>") && text.contains("<td>exact</td>"));
    assert!(!page(&plans::timed()).contains("Encoded values"));
}

#[test]
fn budgets_and_searches_are_on_the_page() {
    let page = page(&plans::timed());
    for part in ["<svg ", "class=\"bound\"", "<h2>Searches</h2>", "node-limit", "+2.10 %", "768.0 KiB"] {
        assert!(page.contains(part), "{part}");
    }
    let plan = &data(&page)["plans"][0];
    assert_eq!(
        (plan["decisions"].as_array().unwrap().len(), plan["times"].as_array().unwrap().len()),
        (2, 18)
    );
    // Without budgets and searches, the page has neither section.
    let plain = html(&plans::block(), &HtmlOptions::default());
    assert!(!plain.contains("<svg ") && !plain.contains("Searches"));
}

#[test]
fn axes_of_the_plot_have_round_numbers() {
    let page = page(&plans::timed());
    let plot = page.split_once("<svg ").unwrap().1.split_once("</svg>").unwrap().0;
    let labels: Vec<&str> =
        plot.split("<text ").skip(1).map(|text| text.split(['>', '<']).nth(1).unwrap()).collect();
    let (times, budgets): (Vec<&str>, Vec<&str>) = labels.into_iter().partition(|label| label.ends_with('%'));
    assert_eq!(budgets, ["512 KiB", "640 KiB", "768 KiB", "896 KiB"]);
    assert_eq!(times, ["+0 %", "+5 %", "+10 %"]);
}

#[test]
fn options_stand_on_the_page_in_words() {
    let mut layout = plans::block();
    layout.options =
        [("alias_state", "true"), ("exact", "false"), ("budget", "1048576"), ("runtime", "player")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
    let page = page(&layout);
    let about = page.split_once("<p class=\"about\">").unwrap().1.split_once("</p>").unwrap().0;
    for part in ["new values of state overwrite the old ones", "budget 1.0 MiB", "for memc run"] {
        assert!(about.contains(part), "{part}: {about}");
    }
    assert!(!about.contains("alias_state") && !about.contains("exact") && !about.contains("true"), "{about}");
}

#[test]
fn the_script_never_makes_markup_of_text() {
    let page = page(&plans::block());
    for way in [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "DOMParser",
    ] {
        assert!(!script(&page).contains(way), "{way}");
    }
}

#[test]
fn the_page_loads_nothing_from_the_network() {
    let page = page(&plans::training(60));
    for way in ["http:", "https:", "src=", "href=", "@import", "url(", "fetch(", "XMLHttpRequest", "import("]
    {
        assert!(!page.contains(way), "{way}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn tags_are_balanced_and_no_mark_is_left() {
    for layout in [plans::block(), plans::timed(), plans::empty(), plans::training(2)] {
        let page = page(&layout);
        let markup: String = page.replace(script(&page), "").replace(&data(&page).to_string(), "");
        for tag in [
            "html", "head", "body", "style", "script", "div", "dl", "dt", "dd", "main", "section", "aside",
            "table", "h1", "svg", "text", "tr", "td",
        ] {
            let opened =
                markup.matches(&format!("<{tag}>")).count() + markup.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, markup.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        assert!(!markup.contains("{{") && !markup.contains("}}"));
    }
}

#[test]
fn pages_stay_small() {
    let small = page(&plans::block());
    assert!(script(&small).len() < 18 * 1024, "{} bytes of script", script(&small).len());
    let layout = plans::training(3000);
    let large = page(&layout);
    assert!(layout.tensors.len() > 3500);
    assert!(
        large.len() < 250 * layout.tensors.len(),
        "{} bytes for {} tensors",
        large.len(),
        layout.tensors.len()
    );
    assert_eq!(large, page(&layout));
}

/// Writes pages for manual inspection and for a browser test.
#[test]
fn pages_are_written_for_manual_inspection() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let before = plans::training(480);
    for (name, layout, before) in [
        ("block", plans::block(), None),
        ("timed", plans::timed(), None),
        ("training", plans::training(600), Some(&before)),
        ("large", plans::training(3400), None),
        ("hostile", plans::hostile(), None),
        ("empty", plans::empty(), None),
    ] {
        let page = html(&layout, &HtmlOptions { title: name, before });
        std::fs::write(folder.join(format!("{name}.html")), &page).unwrap();
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    }
}
