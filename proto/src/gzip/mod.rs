//! The compression `gzip`: RFC 1952 around RFC 1951.

mod inflate;
mod spare;

use alloc::boxed::Box;
use core::fmt;

use bytes::{Buf, BytesMut};
use crc32fast::Hasher;
use miniz_oxide::DataFormat;
use miniz_oxide::deflate::core::{CompressorOxide, TDEFLFlush, TDEFLStatus, compress};
use miniz_oxide::inflate::core::DecompressorOxide;
use trirpc_core::CodecError;
use trirpc_core::call::{Compression, DecompressError};

use spare::Spare;

/// Magic number and the only compression method there is (RFC 1952, section 2.3.1).
const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];

/// What we write: no flags, no time, no extra flags, system unknown.
const HEADER: [u8; 10] = [MAGIC[0], MAGIC[1], MAGIC[2], 0, 0, 0, 0, 0, 0, 255];

/// Least room that the compressor is given, in bytes.
const ROOM: usize = 256;

/// Compresses messages by gzip, which every gRPC and Dubbo implementation knows.
///
/// A message may consist of several gzip members; anything else behind a member is refused, as are members whose
/// checksum or length is wrong. Inflating takes memory for what a message gives, and stops one byte past its limit.
///
/// Compressing needs about 230 KiB of memory while it runs, inflating 11 KiB. With the feature `std` that memory is
/// kept for the next message; every clone and thread that shares a `Gzip` uses it.
pub struct Gzip {
    level: u8,
    deflaters: Spare<CompressorOxide>,
    inflaters: Spare<DecompressorOxide>,
}

impl Gzip {
    /// Level 6, the usual compromise.
    pub fn new() -> Self {
        Self::with_level(6)
    }

    /// A level from 1 (fast) to 9 (small); 0 stores without compressing. Higher ones are taken as 9.
    pub fn with_level(level: u8) -> Self {
        Self { level: level.min(9), deflaters: Spare::new(), inflaters: Spare::new() }
    }
}

impl Default for Gzip {
    fn default() -> Self {
        Self::new()
    }
}

impl Compression for Gzip {
    fn name(&self) -> &'static str {
        "gzip"
    }

    fn compress(&self, src: &mut dyn Buf, dst: &mut BytesMut) -> Result<(), CodecError> {
        let mut machine = self.deflaters.take().unwrap_or_else(|| {
            let mut machine = Box::<CompressorOxide>::default();
            machine.set_format_and_level(DataFormat::Raw, self.level);
            machine
        });
        dst.extend_from_slice(&HEADER);
        let deflated = deflate(&mut machine, src, dst);
        machine.reset();
        self.deflaters.keep(machine);
        let (checksum, len) = deflated?;
        dst.extend_from_slice(&checksum.to_le_bytes());
        dst.extend_from_slice(&len.to_le_bytes());
        Ok(())
    }

    fn decompress(&self, src: &mut dyn Buf, dst: &mut BytesMut, limit: usize) -> Result<(), DecompressError> {
        let mut machine = self.inflaters.take().unwrap_or_default();
        let inflated = inflate::members(&mut machine, src, dst, limit);
        self.inflaters.keep(machine);
        inflated
    }
}

/// Appends the deflated `src`; returns its checksum, and its length modulo 2³².
fn deflate(machine: &mut CompressorOxide, src: &mut dyn Buf, dst: &mut BytesMut) -> Result<(u32, u32), CodecError> {
    let mut checksum = Hasher::new();
    let mut len = 0_u32;
    let mut filled = dst.len();
    dst.resize(filled + ROOM.max(src.remaining() / 2), 0);
    loop {
        let chunk = src.chunk();
        let flush = if chunk.len() == src.remaining() { TDEFLFlush::Finish } else { TDEFLFlush::None };
        let (status, consumed, produced) = compress(machine, chunk, &mut dst[filled..], flush);
        checksum.update(&chunk[..consumed]);
        len = len.wrapping_add(consumed as u32);
        src.advance(consumed);
        filled += produced;
        match status {
            TDEFLStatus::Done => break,
            TDEFLStatus::Okay if filled == dst.len() => dst.resize(filled + ROOM.max(filled / 2), 0),
            TDEFLStatus::Okay => {}
            TDEFLStatus::BadParam | TDEFLStatus::PutBufFailed => return Err(CodecError::new("the compressor failed")),
        }
    }
    dst.truncate(filled);
    Ok((checksum.finalize(), len))
}

impl fmt::Debug for Gzip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gzip").field("level", &self.level).finish_non_exhaustive()
    }
}
