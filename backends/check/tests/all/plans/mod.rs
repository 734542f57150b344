//! Right plans that memc wrote, in `data/plans`: together with the plan of `fixture` they have each key of a
//! layout that the check verifies.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use memc_check::{Options, Report};
use memc_layout::Layout;
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::ModelProto;
use prost::Message as _;
use sha2::{Digest as _, Sha256};

use crate::fixture::Case;

/// Names of the plans, and whether their outputs are proven equal.
const PLANS: &[(&str, bool)] = &[
    ("fetched", true),
    ("layers", true),
    ("player", true),
    ("branches", true),
    ("ranged", true),
    ("found", true),
    ("bound", true),
    ("masks", true),
    ("added", true),
    ("last", true),
    ("rewritten", true),
    ("engines", true),
    ("caches", false),
    ("coded", false),
];

/// A plan with its two models.
pub struct Plan {
    pub name: &'static str,
    /// Whether its outputs are proven equal.
    pub is_proven: bool,
    pub given: ModelFile,
    pub out: ModelFile,
    pub layout: Layout,
}

impl Plan {
    pub fn check(&self, layout: &Layout) -> Report {
        memc_check::check(&self.given, &self.out, layout, Options::default())
    }

    /// Checks another output model, with its hash in the layout; `None` if its bytes are no model.
    pub fn check_model(&self, out: &ModelProto) -> Option<Report> {
        let bytes = out.encode_to_vec();
        let mut layout = self.layout.clone();
        layout.model.output_sha256 =
            Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let out = ModelFile::from_bytes(bytes).ok()?;
        Some(memc_check::check(&self.given, &out, &layout, Options::default()))
    }

    /// Whether a report accepts a plan: nothing is wrong, and what was proven is proven.
    pub fn accepts(&self, report: &Report) -> bool {
        report.holds() && (report.is_proven() || !self.is_proven)
    }
}

/// Returns all plans.
pub fn plans() -> Vec<Plan> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/plans");
    let read = |name: &str, end: &str| std::fs::read(folder.join(format!("{name}.{end}"))).unwrap();
    let plan = |(name, is_proven): &(&'static str, bool)| Plan {
        name,
        is_proven: *is_proven,
        given: ModelFile::from_bytes(read(name, "given.onnx")).unwrap(),
        out: ModelFile::from_bytes(read(name, "out.onnx")).unwrap(),
        layout: memc_layout::read(&String::from_utf8(read(name, "layout.json")).unwrap()).unwrap(),
    };
    let mut case = Case::default();
    case.report();
    let by_hand = Plan {
        name: "by hand",
        is_proven: true,
        given: ModelFile::from_bytes(case.given.encode_to_vec()).unwrap(),
        out: ModelFile::from_bytes(case.out.encode_to_vec()).unwrap(),
        layout: case.layout().clone(),
    };
    PLANS.iter().map(plan).chain([by_hand]).collect()
}

#[test]
fn right_plans_are_accepted() {
    for plan in plans() {
        let report = plan.check(&plan.layout);
        let found: Vec<String> =
            report.violations.iter().map(|violation| violation.diagnostic.to_string()).collect();
        assert!(found.is_empty(), "{}: {found:#?}", plan.name);
        assert_eq!(report.is_proven(), plan.is_proven, "{}: {:?}", plan.name, report.remarks);
    }
}
