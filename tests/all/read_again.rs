//! Kernels that read their operand again after their first write: results are right, also for results
//! in place.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use command::Folder;
use models_made::{bytes, fixed, node, with};

#[test]
fn a_kernel_that_rereads_its_operand_keeps_its_bits_in_place() {
    let nodes = vec![node("Neg", &["x"], &["n"]), node("Gelu", &["n"], &["g"]), node("Neg", &["g"], &["y"])];
    let mut model = with(nodes, |graph| {
        graph.input = vec![fixed("x", &[8, 257])];
        graph.output = vec![fixed("y", &[8, 257])];
    });
    model.opset_import[0].version = Some(20);
    let folder = Folder::new("read-again");
    folder.write("in.onnx", bytes(&model));
    for (runtime, in_place) in [("arena", 2), ("player", 1)] {
        folder.memc(&format!("optimize in.onnx -o out.onnx --exact --runtime {runtime}")).done();
        let layout = folder.read("out.layout.json");
        assert_eq!(layout.matches("\"in_place\"").count(), in_place, "{runtime}: {layout}");
        let ran = folder.memc("verify in.onnx out.onnx -n 1");
        assert_eq!(ran.code, Some(0), "{runtime}: {ran:#?}");
    }
}
