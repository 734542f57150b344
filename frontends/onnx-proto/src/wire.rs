//! Walks over the fields of a protobuf message as bytes, without decoding, recursion or allocation by
//! declared size.
//!
//! The format is that of the Protocol Buffers encoding guide. A field is a key (field number and wire
//! type in one varint) and a value. The length of the value follows from the wire type or is declared
//! by a varint.
use std::ops::Range;

/// Maximum number of open groups, and of nested messages; prost has this limit too.
pub const DEPTH_LIMIT: usize = 100;

/// Maximum field number in protobuf.
const TAG_LIMIT: u64 = (1 << 29) - 1;

/// Encoding of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireType {
    /// A variable-length integer (wire type 0).
    Varint,
    /// Eight bytes (wire type 1).
    Fixed64,
    /// A length, then data of that length: a string, bytes, a message or a packed list (wire type 2).
    LengthDelimited,
    /// Fields between a start key and an end key (wire types 3 and 4). ONNX has none; unknown fields
    /// may be groups.
    Group,
    /// Four bytes (wire type 5).
    Fixed32,
}

/// One field of a message, as offsets into the walked bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Field number.
    pub tag: u32,
    /// Encoding of the value.
    pub wire_type: WireType,
    /// The whole field, including its key.
    pub span: Range<usize>,
    /// The value, without key and declared length, and for a group without the end key.
    pub payload: Range<usize>,
}

/// A violation of the wire format. Offsets are bytes from the start of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The bytes end inside a varint.
    #[error("byte {offset}: the data ends inside a number")]
    VarintTruncated {
        /// Start of the varint.
        offset: usize,
    },
    /// A varint holds more than 64 bits.
    #[error("byte {offset}: a number is longer than 64 bits")]
    VarintTooLong {
        /// Start of the varint.
        offset: usize,
    },
    /// A key has field number 0 or a field number above 2^29 - 1.
    #[error("byte {offset}: {tag} is not a legal field number")]
    FieldNumber {
        /// Start of the key.
        offset: usize,
        /// The invalid number.
        tag: u64,
    },
    /// A key has wire type 6 or 7.
    #[error("byte {offset}: wire type {wire_type} does not exist")]
    UnknownWireType {
        /// Start of the key.
        offset: usize,
        /// The invalid wire type.
        wire_type: u8,
    },
    /// A field declares more bytes than its message has left.
    #[error(
        "byte {offset}: field {tag} needs {needed} bytes, but its message has {available} left (truncated file?)"
    )]
    FieldTruncated {
        /// Start of the key.
        offset: usize,
        /// Field number.
        tag: u32,
        /// Number of bytes that the value needs.
        needed: u64,
        /// Number of bytes from the start of the value to the end of the message.
        available: u64,
    },
    /// An end key without an open group, or not of the innermost open group.
    #[error("byte {offset}: group {tag} ends here but is not open")]
    GroupEnd {
        /// Start of the end key.
        offset: usize,
        /// Field number in the end key.
        tag: u32,
    },
    /// A group without an end key in its message.
    #[error("byte {offset}: group {tag} begins here but does not end")]
    GroupUnclosed {
        /// Start of the start key.
        offset: usize,
        /// Field number.
        tag: u32,
    },
    /// Messages or groups are nested deeper than [`DEPTH_LIMIT`].
    #[error("byte {offset}: messages are nested deeper than {DEPTH_LIMIT} levels")]
    TooDeep {
        /// Start of the message that is one level too deep.
        offset: usize,
    },
    /// A field that ONNX defines as a message contains a number or a group.
    #[error("byte {offset}: field {tag} should hold a message")]
    NotAMessage {
        /// Start of the key.
        offset: usize,
        /// Field number.
        tag: u32,
    },
    /// A span from the caller is not inside the bytes.
    #[error("bytes {start}..{end} do not lie inside the file's {len} bytes")]
    SpanOutside {
        /// Start of the span.
        start: usize,
        /// End of the span.
        end: usize,
        /// Length of the bytes.
        len: usize,
    },
}

/// Iterates over the fields of the message at `span` in `bytes`, in file order.
///
/// For a broken message, yields one error and then ends. Each step is `O(1)`, or `O(group)` for a
/// group.
pub fn fields(bytes: &[u8], span: Range<usize>) -> Fields<'_> {
    let invalid = span.start > span.end || span.end > bytes.len();
    let pending =
        invalid.then_some(WireError::SpanOutside { start: span.start, end: span.end, len: bytes.len() });
    Fields { bytes, at: span.start, end: span.end, pending }
}

/// Iterator over the fields of one message; see [`fields`].
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
    pending: Option<WireError>,
}

impl Iterator for Fields<'_> {
    type Item = Result<Field, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.pending.take() {
            self.at = self.end;
            return Some(Err(error));
        }
        if self.at >= self.end {
            return None;
        }
        let field = read_field(self.bytes, self.at, self.end);
        self.at = field.as_ref().map_or(self.end, |field| field.span.end);
        Some(field)
    }
}

/// Returns the value of the last length-delimited field `tag` in the message at `span`: in protobuf the
/// last one counts. `None` if there is none.
///
/// # Errors
///
/// Returns an error if the message is broken.
pub fn last_bytes(bytes: &[u8], span: Range<usize>, tag: u32) -> Result<Option<&[u8]>, WireError> {
    let mut found = None;
    for field in fields(bytes, span) {
        let field = field?;
        if field.tag == tag && field.wire_type == WireType::LengthDelimited {
            found = bytes.get(field.payload);
        }
    }
    Ok(found)
}

/// Reads the field whose key starts at `start`, in a message that ends at `end`.
fn read_field(bytes: &[u8], start: usize, end: usize) -> Result<Field, WireError> {
    let (tag, wire_type, body) = read_key(bytes, start, end)?;
    if wire_type == 3 {
        return read_group(bytes, start, body, end, tag);
    }
    let (wire_type, payload) = read_plain(bytes, start, body, end, tag, wire_type)?;
    Ok(Field { tag, wire_type, span: start..payload.end, payload })
}

/// Reads the value of a field that is not a group. `key` and `body` are the starts of its key and its
/// value.
fn read_plain(
    bytes: &[u8],
    key: usize,
    body: usize,
    end: usize,
    tag: u32,
    wire_type: u8,
) -> Result<(WireType, Range<usize>), WireError> {
    let take = |from: usize, needed: u64| {
        let available = end.saturating_sub(from) as u64;
        if needed > available {
            return Err(WireError::FieldTruncated { offset: key, tag, needed, available });
        }
        // The cast fits: `needed` is at most `available`, which comes from a usize.
        Ok(from..from + needed as usize)
    };
    match wire_type {
        0 => Ok((WireType::Varint, body..read_varint(bytes, body, end)?.1)),
        1 => Ok((WireType::Fixed64, take(body, 8)?)),
        2 => {
            let (len, from) = read_varint(bytes, body, end)?;
            Ok((WireType::LengthDelimited, take(from, len)?))
        }
        4 => Err(WireError::GroupEnd { offset: key, tag }),
        5 => Ok((WireType::Fixed32, take(body, 4)?)),
        _ => Err(WireError::UnknownWireType { offset: key, wire_type }),
    }
}

/// Reads a group to its end key. Open groups are kept in a list, so nesting uses no stack.
fn read_group(bytes: &[u8], start: usize, body: usize, end: usize, tag: u32) -> Result<Field, WireError> {
    let mut open = vec![tag];
    let mut at = body;
    while at < end {
        let (inner, wire_type, value) = read_key(bytes, at, end)?;
        match wire_type {
            3 if open.len() >= DEPTH_LIMIT => return Err(WireError::TooDeep { offset: at }),
            3 => {
                open.push(inner);
                at = value;
            }
            4 if open.last() != Some(&inner) => {
                return Err(WireError::GroupEnd { offset: at, tag: inner });
            }
            4 => {
                open.pop();
                if open.is_empty() {
                    let (span, payload) = (start..value, body..at);
                    return Ok(Field { tag, wire_type: WireType::Group, span, payload });
                }
                at = value;
            }
            _ => at = read_plain(bytes, at, value, end, inner, wire_type)?.1.end,
        }
    }
    Err(WireError::GroupUnclosed { offset: start, tag })
}

/// Reads a key; returns field number, wire type and start of the value.
fn read_key(bytes: &[u8], at: usize, end: usize) -> Result<(u32, u8, usize), WireError> {
    let (key, body) = read_varint(bytes, at, end)?;
    let tag = key >> 3;
    if tag == 0 || tag > TAG_LIMIT {
        return Err(WireError::FieldNumber { offset: at, tag });
    }
    Ok((tag as u32, (key & 7) as u8, body))
}

/// Reads a varint; returns its value and its end.
fn read_varint(bytes: &[u8], start: usize, end: usize) -> Result<(u64, usize), WireError> {
    let mut value = 0_u64;
    let available = bytes.get(start..end).unwrap_or_default();
    for (idx, byte) in available.iter().enumerate().take(10) {
        // The tenth byte has room for one bit: 9 * 7 + 1 = 64.
        if idx == 9 && *byte > 1 {
            return Err(WireError::VarintTooLong { offset: start });
        }
        value |= u64::from(byte & 0x7f) << (7 * idx);
        if byte & 0x80 == 0 {
            return Ok((value, start + idx + 1));
        }
    }
    Err(WireError::VarintTruncated { offset: start })
}
