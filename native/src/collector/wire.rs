//! The wire format of Protocol Buffers: the fields of a message.
//!
//! `sidelight_model.import_formats.protobuf_wire` is the same in Python. The format is described at
//! https://protobuf.dev/programming-guides/encoding.

/// The most bytes of a varint.
const MAX_VARINT_BYTES: usize = 10;

/// A message ends in the middle of a field, or holds something else than expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged(pub &'static str);

/// The value of a field: a varint, or the bytes of a text, a message, packed numbers or a fixed number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Integer(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    pub fn integer(self) -> Result<u64, Damaged> {
        match self {
            Value::Integer(value) => Ok(value),
            Value::Bytes(_) => Err(Damaged("a number is expected where bytes are")),
        }
    }

    pub fn bytes(self) -> Result<&'a [u8], Damaged> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Integer(_) => Err(Damaged("bytes are expected where a number is")),
        }
    }
}

/// Iterates over the numbers and values of the fields of a message.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    fn read(&mut self) -> Result<(u64, Value<'a>), Damaged> {
        let tag = read_varint(&mut self.0)?;
        let length = match tag & 7 {
            0 => return Ok((tag >> 3, Value::Integer(read_varint(&mut self.0)?))),
            1 => 8,
            2 => usize::try_from(read_varint(&mut self.0)?).unwrap_or(usize::MAX),
            5 => 4,
            _ => return Err(Damaged("a field has an unknown wire type")),
        };
        if length > self.0.len() {
            return Err(Damaged("a field ends beyond the profile"));
        }
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        Ok((tag >> 3, Value::Bytes(bytes)))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.0.is_empty()).then(|| self.read())
    }
}

/// Reads a varint from the front of `bytes`. Bits beyond the 64th are lost.
#[inline]
pub fn read_varint(bytes: &mut &[u8]) -> Result<u64, Damaged> {
    match **bytes {
        [one @ ..0x80, ref rest @ ..] => {
            *bytes = rest;
            Ok(u64::from(one))
        }
        [one, two @ ..0x80, ref rest @ ..] => {
            *bytes = rest;
            Ok(u64::from(one & 0x7f) | u64::from(two) << 7)
        }
        _ => read_long_varint(bytes),
    }
}

fn read_long_varint(bytes: &mut &[u8]) -> Result<u64, Damaged> {
    let mut result = 0;
    for (at, &byte) in bytes.iter().take(MAX_VARINT_BYTES).enumerate() {
        result |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            *bytes = &bytes[at + 1..];
            return Ok(result);
        }
    }
    Err(Damaged("a number ends beyond the profile, or has more than 64 bits"))
}

/// The numbers of a repeated field, which holds one number or several packed ones.
pub struct Integers<'a> {
    one: Option<u64>,
    packed: &'a [u8],
}

impl<'a> Integers<'a> {
    pub fn new(value: Value<'a>) -> Integers<'a> {
        match value {
            Value::Integer(one) => Integers { one: Some(one), packed: &[] },
            Value::Bytes(packed) => Integers { one: None, packed },
        }
    }

    #[inline]
    pub fn read_next(&mut self) -> Result<Option<u64>, Damaged> {
        if self.packed.is_empty() {
            return Ok(self.one.take());
        }
        read_varint(&mut self.packed).map(Some)
    }
}

/// Calls `add` with each number of a repeated field.
pub fn read_integers(value: Value<'_>, mut add: impl FnMut(u64)) -> Result<(), Damaged> {
    let mut integers = Integers::new(value);
    while let Some(integer) = integers.read_next()? {
        add(integer);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Damaged, Fields, Value};

    #[test]
    fn fields_of_every_wire_type_are_read_and_damaged_ones_are_refused() {
        let message = [0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x1d, 1, 2, 3, 4];
        let fields: Result<Vec<_>, Damaged> = Fields(&message).collect();
        assert_eq!(
            fields.expect("it is whole"),
            [(1, Value::Integer(150)), (2, Value::Bytes(b"hi")), (3, Value::Bytes(&[1, 2, 3, 4]))]
        );
        for damaged in [&message[..2], &message[..6], &[0x0b][..], &[0x08; 1], &[0xff; 11]] {
            assert!(Fields(damaged).any(|field| field.is_err()), "{damaged:?}");
        }
    }
}
