//! The report page in a real browser: its script runs, fills the table of tensors live at the peak, and
//! loads nothing external.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;
use std::process::Command;

use memc::{Request, Size, plan};
use memc_onnx_proto::ModelFile;
use memc_report::HtmlOptions;

/// Returns the page's DOM after its script ran.
fn rendered(page: &Path) -> String {
    let browser = std::env::var("MEMC_CHROMIUM")
        .expect("MEMC_CHROMIUM names no browser: run the tests with `cargo xtask test`, which looks for one or installs it");
    let profile = page.with_extension("profile");
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--virtual-time-budget=5000",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(["--dump-dom", &format!("file://{}", page.display())])
        .output()
        .expect("the browser starts");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_page_fills_itself_in_a_browser() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = ModelFile::open(root.join("examples/models/whisper_tiny_encoder.onnx")).unwrap();
    let optimized = plan(&file, &Request { compare: true, ..Request::default() }).unwrap();
    let html = memc_report::html(
        &optimized.layout,
        &HtmlOptions { title: "whisper", before: optimized.before.as_ref() },
    );
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page.html");
    fs::write(&page, &html).unwrap();
    let dom = rendered(&page);
    // The row of the largest tensor at the peak exists only if the script ran.
    let rows = dom.matches("<tr").count();
    assert!(rows > html.matches("<tr").count() && rows > 3, "the script made no rows: {rows}");
    let body = &dom[dom.find("<tbody").expect("a table body")..];
    assert!(body.contains("val_51"), "the tensor that fills the peak is not in the table");
    assert!(
        !html.contains("https://") && !html.replace("http://www.w3.org/2000/svg", "").contains("http://"),
        "the page asks for something"
    );
}

#[test]
fn a_budget_plan_lists_recomputed_values() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = ModelFile::open(root.join("tests/models/unet_grad_tiny.onnx")).unwrap();
    let optimized = plan(&file, &Request::new().budget(Size::Percent(75.0)).exact(true).effort(100)).unwrap();
    let again = optimized.layout.tensors.iter().filter(|tensor| tensor.recompute_of.is_some()).count();
    assert!(again > 0, "the budget is kept without computing anything again");
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join("budget-page.html");
    fs::write(&page, memc_report::html(&optimized.layout, &HtmlOptions { title: "unet", before: None }))
        .unwrap();
    let dom = rendered(&page);
    let table = dom
        .split_once("id=\"decisions\"")
        .expect("the table of decisions")
        .1
        .split_once("</table>")
        .unwrap()
        .0;
    assert_eq!(table.matches("recomputed").count(), again, "a row for each");
    assert!(dom.contains(&format!("{again} recomputed, ")), "the sum of their cost");
}
