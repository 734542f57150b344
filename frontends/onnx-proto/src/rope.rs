//! The output of a splice as a list of chunks: ranges of the input, shared weights and small owned
//! bytes.
use std::io::{self, Write};
use std::ops::Range;

use bytes::{BufMut, Bytes};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};

use crate::onnx::TensorProto;
use crate::tensor;

/// A chunk of the output.
#[derive(Debug, Clone)]
enum Chunk {
    /// A range of the input's bytes, copied verbatim.
    Copy(Range<usize>),
    /// Newly written bytes: keys, lengths, new messages.
    Owned(Vec<u8>),
    /// Weights shared with another owner.
    Shared(Bytes),
}

/// Output under construction. Its length is known before writing, as the length prefixes of nested
/// messages require.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rope {
    chunks: Vec<Chunk>,
    len: u64,
}

impl Rope {
    /// Length of the output in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Appends a range of the input; merges it with an adjacent preceding range.
    pub(crate) fn copy(&mut self, range: Range<usize>) {
        self.len += range.len() as u64;
        match self.chunks.last_mut() {
            Some(Chunk::Copy(last)) if last.end == range.start => last.end = range.end,
            _ if range.is_empty() => {}
            _ => self.chunks.push(Chunk::Copy(range)),
        }
    }

    /// Appends a length-delimited field.
    pub(crate) fn bytes_field(&mut self, tag: u32, value: &[u8]) {
        let key = self.owned(|out| header(tag, value.len() as u64, out));
        self.len += key;
        self.len += self.owned(|out| out.extend_from_slice(value));
    }

    /// Appends an integer field.
    pub(crate) fn int_field(&mut self, tag: u32, value: i64) {
        // Protobuf encodes a negative int64 as its two's complement.
        self.len += self.owned(|out| {
            encode_key(tag, WireType::Varint, out);
            encode_varint(value as u64, out);
        });
    }

    /// Appends a message field with the given content.
    pub(crate) fn message_field(&mut self, tag: u32, content: Self) {
        self.len += self.owned(|out| header(tag, content.len, out));
        self.append(content);
    }

    /// Appends a field with a message from memory.
    pub(crate) fn encoded_field(&mut self, tag: u32, message: &impl Message) {
        self.bytes_field(tag, &message.encode_to_vec());
    }

    /// Appends a tensor field with another name; the raw data is shared, not copied.
    pub(crate) fn tensor_field(&mut self, tag: u32, name: &str, tensor: &TensorProto) {
        let mut small = tensor.clone();
        small.name = Some(name.into());
        let raw = small.raw_data.take();
        let mut content = Self::default();
        content.len += content.owned(|out| out.append(&mut small.encode_to_vec()));
        if let Some(raw) = raw {
            let len = raw.len() as u64;
            content.len += content.owned(|out| header(tensor::RAW_DATA, len, out));
            content.chunks.push(Chunk::Shared(raw));
            content.len += len;
        }
        self.message_field(tag, content);
    }

    /// Appends another rope; `O(chunks of other)`.
    pub(crate) fn append(&mut self, other: Self) {
        for chunk in other.chunks {
            match chunk {
                Chunk::Copy(range) => self.copy(range),
                Chunk::Owned(bytes) => self.len += self.owned(|out| out.extend_from_slice(&bytes)),
                Chunk::Shared(bytes) => {
                    self.len += bytes.len() as u64;
                    self.chunks.push(Chunk::Shared(bytes));
                }
            }
        }
    }

    /// Writes the output; copied ranges refer to `input`.
    pub(crate) fn write_to(&self, input: &[u8], out: &mut impl Write) -> io::Result<()> {
        for chunk in &self.chunks {
            match chunk {
                Chunk::Copy(range) => {
                    let bytes = input.get(range.clone()).ok_or(io::ErrorKind::UnexpectedEof)?;
                    out.write_all(bytes)?;
                }
                Chunk::Owned(bytes) => out.write_all(bytes)?,
                Chunk::Shared(bytes) => out.write_all(bytes)?,
            }
        }
        Ok(())
    }

    /// Lets `fill` extend the owned bytes at the end of the rope; returns the number of added bytes.
    fn owned(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> u64 {
        if !matches!(self.chunks.last(), Some(Chunk::Owned(_))) {
            self.chunks.push(Chunk::Owned(Vec::new()));
        }
        let Some(Chunk::Owned(bytes)) = self.chunks.last_mut() else {
            return 0;
        };
        let before = bytes.len();
        fill(bytes);
        (bytes.len() - before) as u64
    }
}

/// Writes the key and length of a length-delimited field.
fn header(tag: u32, len: u64, out: &mut impl BufMut) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(len, out);
}
