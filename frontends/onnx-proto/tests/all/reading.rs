//! Tests of reading: valid models decode, invalid ones give precise errors, and no input causes a panic
//! or large allocations.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use crate::models;

use bytes::Bytes;
use memc_onnx_proto::onnx::{AttributeProto, GraphProto, ModelProto, NodeProto};
use memc_onnx_proto::{FileKind, ModelFile, ReadError, WireError, attribute_graph, attribute_tensor, wire};
use models::*;
use proptest::prelude::*;
use prost::Message as _;

#[test]
fn a_model_decodes_and_weights_are_slices_of_the_file() {
    let bytes = Bytes::from(model().encode_to_vec());
    let file = ModelFile::from_bytes(bytes.clone()).unwrap();
    assert_eq!(file.model(), &model());
    assert_eq!(file.graph().name(), "main");
    let raw = file.graph().initializer[0].raw_data.as_ref().unwrap();
    assert!(bytes.as_ptr_range().contains(&raw.as_ptr()), "the weights were copied");
    let shape = file.graph().input[0].r#type.as_ref().unwrap();
    let memc_onnx_proto::onnx::type_proto::Value::TensorType(ty) = shape.value.as_ref().unwrap() else {
        panic!("not a tensor");
    };
    assert_eq!(ty.shape.as_ref().unwrap().dim[1].value, None, "an absent dimension is not 0");
}

#[test]
fn a_mapped_file_reads_like_its_bytes() {
    let path = std::env::temp_dir().join(format!("memc-onnx-proto-read-{}.onnx", std::process::id()));
    std::fs::write(&path, model().encode_to_vec()).unwrap();
    let file = ModelFile::open(&path).unwrap();
    assert_eq!(file.model(), &model());
    assert_eq!(file.path(), Some(path.as_path()));
    drop(file);
    std::fs::write(&path, b"").unwrap();
    assert!(matches!(ModelFile::open(&path), Err(ReadError::Empty)));
    std::fs::remove_file(&path).unwrap();
    let Err(ReadError::Io { path: reported, source }) = ModelFile::open(&path) else {
        panic!("a missing file was read");
    };
    assert_eq!((reported, source.kind()), (path, std::io::ErrorKind::NotFound));
}

#[test]
fn a_folder_is_unreadable() {
    assert!(matches!(ModelFile::open(std::env::temp_dir()), Err(ReadError::Io { .. })));
}

#[test]
fn spans_follow_the_decoded_graph() {
    let file = ModelFile::from_bytes(model().encode_to_vec()).unwrap();
    let spans = file.spans().graph();
    assert_eq!(spans.node_count(), file.graph().node.len());
    assert_eq!(spans.initializer_count(), file.graph().initializer.len());
    for (idx, node) in file.graph().node.iter().enumerate() {
        let payload = spans.node(idx).unwrap().payload.clone();
        assert_eq!(&NodeProto::decode(file.bytes().slice(payload)).unwrap(), node);
    }
    for (idx, tensor) in file.graph().initializer.iter().enumerate() {
        let payload = spans.initializer(idx).unwrap().payload.clone();
        assert_eq!(file.bytes().slice(payload), tensor.encode_to_vec());
    }
    assert_eq!(spans.node(4), None);
    let whole: usize = file.spans().fields().iter().map(|field| field.span.len()).sum();
    assert_eq!(whole, file.bytes().len());
    assert_eq!(file.bytes().slice(spans.payload()), file.graph().encode_to_vec());
}

#[test]
fn messages_inside_attributes_are_found() {
    let file = ModelFile::from_bytes(model().encode_to_vec()).unwrap();
    let node = |idx| file.spans().graph().node(idx).unwrap().payload.clone();
    let constant = attribute_tensor(file.bytes(), node(0), "value").unwrap().unwrap();
    assert_eq!(file.bytes().slice(constant), tensor("ignored", &[3.0, 4.0]).encode_to_vec());
    let branch = attribute_graph(file.bytes(), node(2), "else_branch").unwrap().unwrap();
    assert_eq!(file.bytes().slice(branch), body("else").encode_to_vec());
    assert_eq!(attribute_graph(file.bytes(), node(0), "value").unwrap(), None);
    assert_eq!(attribute_tensor(file.bytes(), node(1), "value").unwrap(), None);
}

#[test]
fn other_formats_are_named() {
    let kind = |bytes: &'static [u8]| match ModelFile::from_bytes(bytes) {
        Err(ReadError::NotOnnx(kind)) => Some(kind),
        _ => None,
    };
    assert_eq!(kind(b"ir_version: 7\ngraph {\n}\n"), Some(FileKind::Text));
    assert_eq!(kind("schön\n".as_bytes()), Some(FileKind::Text));
    assert_eq!(kind(b"{\"irVersion\": 7}"), Some(FileKind::Text));
    assert_eq!(kind(b"version https://git-lfs.github.com/spec/v1\n"), Some(FileKind::GitLfsPointer));
    assert_eq!(kind(b"PK\x03\x04\x14\0\0\0"), Some(FileKind::Archive));
    assert_eq!(kind(b"\x20\0\0\0ORTM\0\0\0\0"), Some(FileKind::OrtFlatbuffer));
    let text = ModelFile::from_bytes(&b"hello"[..]).unwrap_err();
    assert_eq!(text.to_string(), "not an ONNX model: it is a text file");
}

#[test]
fn models_without_one_graph_are_refused() {
    let mut bare = model();
    bare.graph = None;
    assert!(matches!(ModelFile::from_bytes(bare.encode_to_vec()), Err(ReadError::NoGraph)));
    assert!(matches!(ModelFile::from_bytes(Vec::new()), Err(ReadError::Empty)));
    let mut twice = model().encode_to_vec();
    let second = twice.len();
    twice.extend(field(MODEL_GRAPH, &body("more").encode_to_vec()));
    let Err(ReadError::GraphRepeated { first, second: found }) = ModelFile::from_bytes(twice) else {
        panic!("two graphs were accepted");
    };
    assert!(first < second && found == second);
}

#[test]
fn a_broken_field_is_located() {
    let mut bytes = model().encode_to_vec();
    // A node in the graph declares more bytes than the graph has.
    let node = ModelFile::from_bytes(bytes.clone()).unwrap().spans().graph().node(1).unwrap().clone();
    bytes[node.payload.start + 1] = 0x7f;
    let Err(ReadError::Broken(WireError::FieldTruncated { offset, tag, needed, .. })) =
        ModelFile::from_bytes(bytes)
    else {
        panic!("a broken node was accepted");
    };
    assert_eq!((offset, tag, needed), (node.payload.start, 1, 127));
}

#[test]
fn a_huge_declared_length_is_an_error_and_not_an_allocation() {
    for tag in [1_u8, 2, 5, 7, 9, 14] {
        let mut bytes = vec![tag << 3 | 2];
        bytes.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
        bytes.push(0);
        let error = ModelFile::from_bytes(bytes).unwrap_err();
        assert!(
            matches!(error, ReadError::Broken(WireError::FieldTruncated { offset: 0, needed, .. }) if needed > 1 << 60),
            "{error:?}"
        );
    }
}

/// Builds a model with `levels` nested graphs; each inner graph is in an attribute of a node of the
/// next outer graph.
fn nested(levels: usize) -> Vec<u8> {
    let mut graph = GraphProto::default().encode_to_vec();
    for _ in 1..levels {
        // AttributeProto.g is field 6, NodeProto.attribute field 5.
        graph = field(GRAPH_NODE, &field(5, &field(6, &graph)));
    }
    field(MODEL_GRAPH, &graph)
}

#[test]
fn nesting_is_limited_to_the_depth_of_the_decoder() {
    // Graph k is 3k - 2 messages below the model; 34 graphs make 100 levels.
    ModelFile::from_bytes(nested(34)).unwrap();
    let error = ModelFile::from_bytes(nested(35)).unwrap_err();
    assert!(matches!(error, ReadError::Broken(WireError::TooDeep { .. })), "{error:?}");
    let error = ModelFile::from_bytes(nested(10_000)).unwrap_err();
    assert!(matches!(error, ReadError::Broken(WireError::TooDeep { .. })), "{error:?}");
}

#[test]
fn groups_are_walked_and_bounded() {
    // Field 50 is a group that contains a varint and a nested group 51.
    let group = [0x93, 0x03, 0x08, 0x01, 0x9b, 0x03, 0x9c, 0x03, 0x94, 0x03];
    let fields: Vec<_> = wire::fields(&group, 0..group.len()).collect::<Result<_, _>>().unwrap();
    assert_eq!((fields.len(), fields[0].tag, fields[0].payload.clone()), (1, 50, 2..8));
    let first = |bytes: &[u8]| wire::fields(bytes, 0..bytes.len()).next().unwrap().unwrap_err();
    assert_eq!(first(&group[..8]), WireError::GroupUnclosed { offset: 0, tag: 50 });
    assert_eq!(first(&[0x93, 0x03, 0x9c, 0x03]), WireError::GroupEnd { offset: 2, tag: 51 });
    assert_eq!(first(&[0x9c, 0x03]), WireError::GroupEnd { offset: 0, tag: 51 });
    assert_eq!(first(&[0x0b].repeat(10_000)), WireError::TooDeep { offset: 100 });
}

#[test]
fn keys_and_varints_are_checked() {
    let first = |bytes: &[u8]| wire::fields(bytes, 0..bytes.len()).next().unwrap().unwrap_err();
    assert_eq!(first(&[0x02]), WireError::FieldNumber { offset: 0, tag: 0 });
    assert_eq!(first(&[0x0e]), WireError::UnknownWireType { offset: 0, wire_type: 6 });
    assert_eq!(first(&[0x08, 0x80]), WireError::VarintTruncated { offset: 1 });
    assert_eq!(first(&[0xff; 12]), WireError::VarintTooLong { offset: 0 });
    assert_eq!(
        first(&[0x0d, 1, 2]),
        WireError::FieldTruncated { offset: 0, tag: 1, needed: 4, available: 2 }
    );
    let span = wire::fields(b"", 3..9).next().unwrap().unwrap_err();
    assert_eq!(span, WireError::SpanOutside { start: 3, end: 9, len: 0 });
    let scalar = ModelFile::from_bytes(vec![MODEL_GRAPH << 3, 1]).unwrap_err();
    assert!(matches!(scalar, ReadError::Broken(WireError::NotAMessage { offset: 0, tag: 7 })), "{scalar:?}");
}

#[test]
fn a_name_that_is_not_text_is_a_decoding_error() {
    let bytes = field(MODEL_GRAPH, &field(2, &[0xff, 0xfe]));
    assert!(matches!(ModelFile::from_bytes(bytes), Err(ReadError::Decode(_))));
}

#[test]
fn every_prefix_of_a_model_is_read_or_refused() {
    let bytes = Bytes::from(model().encode_to_vec());
    let mut refused = 0;
    for len in 0..bytes.len() {
        refused += usize::from(ModelFile::from_bytes(bytes.slice(..len)).is_err());
    }
    // A cut between the last fields leaves a model; nearly every other cut breaks a field.
    assert!(refused > bytes.len() * 4 / 5 && refused < bytes.len());
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = ModelFile::from_bytes(bytes.clone());
        let walked: usize = wire::fields(&bytes, 0..bytes.len()).flatten().map(|field| field.span.len()).sum();
        prop_assert!(walked <= bytes.len());
    }

    #[test]
    fn bytes_refused_by_the_check_are_refused_by_the_decoder(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let framed = field(MODEL_GRAPH, &bytes);
        let decoded = ModelProto::decode(framed.as_slice());
        if memc_onnx_proto::schema::check_model(&framed).is_err() {
            prop_assert!(decoded.is_err());
        }
    }

    #[test]
    fn damaged_models_never_panic(at in 0_usize..900, byte in any::<u8>(), cut in 0_usize..900) {
        let mut bytes = model().encode_to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        bytes.truncate(bytes.len() - cut % bytes.len());
        let _ = ModelFile::from_bytes(bytes);
    }
}

#[test]
fn an_attribute_in_two_parts_is_reported() {
    let part =
        |graph: GraphProto| AttributeProto { g: Some(graph), ..AttributeProto::default() }.encode_to_vec();
    let mut attribute = graph_attribute("body", body("one")).encode_to_vec();
    attribute.extend(part(body("two")));
    let bytes = field(MODEL_GRAPH, &field(GRAPH_NODE, &field(5, &attribute)));
    let file = ModelFile::from_bytes(bytes).unwrap();
    let node = file.spans().graph().node(0).unwrap().payload.clone();
    let error = attribute_graph(file.bytes(), node, "body").unwrap_err();
    assert!(matches!(error, memc_onnx_proto::SpliceError::AttributeRepeated { .. }), "{error:?}");
}
