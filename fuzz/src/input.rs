//! How targets take structured values out of bytes.

/// Reads values off the front; past the end everything is zero or empty, so that every input means something.
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn octet(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    /// Big-endian.
    pub(crate) fn short(&mut self) -> u16 {
        u16::from(self.octet()) << 8 | u16::from(self.octet())
    }

    /// `len` bytes, or what is left.
    pub(crate) fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (front, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        front
    }
}
