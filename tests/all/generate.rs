//! `memc.generate`: a fitted decoder gives the tokens of the given one in stock sessions, with the prompt in
//! chunks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::Command;

use crate::command::Folder;
use crate::models_made::bytes;
use crate::models_made::decoder::{self, Decoder, Mask};

/// Loads the module from its file, so that the package need not be built, and prints tokens and runs of both
/// models, and the message of a refusal.
const SCRIPT: &str = r#"
import importlib.util, json, sys
import numpy, onnxruntime
spec = importlib.util.spec_from_file_location("generate", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
prompt = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]
session = onnxruntime.InferenceSession("in.onnx")

def following(text):
    feeds = {}
    for put in session.get_inputs():
        if put.type == "tensor(float)":
            extents = [1 if extent == "batch" else 0 if isinstance(extent, str) else extent for extent in put.shape]
            feeds[put.name] = numpy.zeros(extents, numpy.float32)
        else:
            feeds[put.name] = numpy.array([text if put.name == "ids" else [1] * len(text)], numpy.int64)
    return int(session.run(None, feeds)[0][0, -1].argmax())

# The whole text again for each token, with empty caches.
whole = list(prompt)
while len(whole) < len(prompt) + 9:
    whole.append(following(whole))
given = module.generate("in.onnx", prompt, 9)
fitted = module.generate("out.onnx", prompt, 9, layout="out.layout.json")
few = module.generate("out.onnx", prompt, 9, layout="out.layout.json", chunk=2)
ended = module.generate("out.onnx", prompt, 9, layout="out.layout.json", end=given[3])
try:
    module.generate("out.onnx", prompt, 90, layout="out.layout.json")
    refused = ""
except ValueError as error:
    refused = str(error)
print(json.dumps([given, fitted, few, ended, fitted.runs, few.runs, refused, whole[len(prompt):]]))
"#;

/// Two layers over free rows.
fn decoder(mask: Mask) -> Decoder {
    Decoder { seed: 11, layers: 2, batch: 1, heads: 4, groups: 4, mask, ..decoder::free() }
}

#[test]
fn a_fitted_decoder_gives_the_tokens_of_the_given_one() {
    let python = std::env::var_os("MEMC_PYTHON").expect(
        "MEMC_PYTHON names no Python with onnx and onnxruntime: run the tests with `cargo xtask test`",
    );
    for (mask, room) in [(Mask::Ranges, 60_000), (Mask::Both, 1_000_000)] {
        let folder = Folder::new(&format!("generate-{mask:?}"));
        folder.write("in.onnx", bytes(&decoder(mask).model()));
        folder
            .memc(&format!(
                "fit in.onnx -o out.onnx --ram {room} --context 24 --last-token --runtime ort --effort 100"
            ))
            .done();
        folder.memc("check in.onnx out.onnx out.layout.json").checked();
        let layout = memc_layout::read(&folder.read("out.layout.json")).unwrap();
        let chunk = layout.caches[0].rows;
        folder.write("run.py", SCRIPT);
        let module = concat!(env!("CARGO_MANIFEST_DIR"), "/python/memc/_generate.py");
        let ran =
            Command::new(&python).args(["run.py", module]).current_dir(folder.path("")).output().unwrap();
        assert!(ran.status.success(), "{mask:?}: {}", String::from_utf8_lossy(&ran.stderr));
        let found: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
        let tokens = |at: usize| found[at].as_array().unwrap().clone();
        assert_eq!(tokens(0).len(), 9);
        assert_eq!(tokens(7), tokens(0), "{mask:?}: as the model gives them without its caches");
        assert_eq!((tokens(1), tokens(2)), (tokens(0), tokens(0)), "{mask:?}");
        let end = tokens(0).iter().position(|token| *token == tokens(0)[3]).unwrap();
        assert_eq!(tokens(3), tokens(0)[..=end], "{mask:?}: ends at the token");
        let chunks = 11u64.div_ceil(chunk);
        assert_eq!(tokens(4).len() as u64, chunks + 8, "{mask:?}: chunks of {chunk}");
        assert_eq!(tokens(5).len() as u64, 11u64.div_ceil(chunk.min(2)) + 8, "{mask:?}");
        assert!(found[6].as_str().unwrap().contains("24"), "{mask:?}: {}", found[6]);
    }
}
